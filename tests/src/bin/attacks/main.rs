//! Plays the attacks of the tests, and prints what got through and who was hurt. With names, it plays only those.
//! `--record` writes the table into docs/floods.md.

use std::{env, process::ExitCode};

use anyhow::{Result, bail};
use ratelimit_tests::{attacks, pages};

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
        pages::record("docs/floods.md", "attacks", &table)?;
    }
    Ok(if are_held { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
