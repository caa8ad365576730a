//! Plays the attacks of the tests, and prints what got through and who was hurt. With names, it plays only those.
//! `--record` writes the table into docs/floods.md.

use std::{env, fs, path::Path, process::ExitCode};

use anyhow::{Context as _, Result, bail};
use ratelimit_tests::attacks;

/// The page with the table.
const PAGE: &str = "docs/floods.md";
/// Lines around the table.
const BEGIN: &str = "<!-- attacks: begin -->\n";
const END: &str = "<!-- attacks: end -->\n";

fn main() -> Result<ExitCode> {
    let (options, names): (Vec<_>, Vec<_>) = env::args().skip(1).partition(|argument| argument.starts_with("--"));
    if let Some(name) = names.iter().find(|name| attacks::ALL.iter().all(|attack| attack.name != **name)) {
        bail!("no attack is called {name}: use one of {}", attacks::ALL.map(|attack| attack.name).join(", "));
    }
    let mut rows = Vec::new();
    let mut are_held = true;
    for attack in attacks::ALL.iter().filter(|attack| names.is_empty() || names.iter().any(|name| name == attack.name))
    {
        let row = (attack.play)();
        let problem = row.problem();
        are_held &= problem.is_none();
        println!("{}: {}", attack.name, problem.as_deref().unwrap_or("held"));
        rows.push(row);
    }
    let table = attacks::table(&rows);
    println!("\n{table}");
    if options.iter().any(|option| option == "--record") {
        record(&table)?;
    }
    Ok(if are_held { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Replaces the table of the page.
fn record(table: &str) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("no workspace")?;
    let page = root.join(PAGE);
    let text = fs::read_to_string(&page).context(PAGE)?;
    let marks = text.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let (before, after) = marks.with_context(|| format!("{PAGE} has no place for the table"))?;
    fs::write(&page, format!("{before}{BEGIN}\n{table}\n{END}{after}")).context(PAGE)
}
