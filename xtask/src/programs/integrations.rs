//! `cargo xtask integrations`: tests beside large software that only they need.

use anyhow::{Result, ensure};

use super::crash::build;
use crate::{
    run,
    setup::{self, unpacked},
};

/// Downloads the software, and runs the tests that need it.
pub(crate) fn run() -> Result<()> {
    run::require_root("integrations")?;
    setup::for_tests()?;
    setup::browser()?;
    unpacked::CROWDSEC.provide()?;
    build(&["ratelimit"])?;
    let mut tests = run::cargo();
    tests.args(["test", "--locked", "--workspace", "--test", "commands", "--"]);
    let text = run::output(tests.args(["--ignored", "--nocapture", "integrations::"]))?;
    print!("{text}");
    ensure!(!text.contains(" 0 passed"), "there is no test of integrations any more");
    Ok(())
}
