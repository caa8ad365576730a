//! Writes the results as JSON, and as a document with plots.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use ratelimit_tests::pages;

use super::{plot, readme};
use crate::{
    machine::Machine,
    measure::noise::RUNS,
    report,
    results::{Felt, Results},
    table::Table,
};

/// Writes `target/bench/results.json`.
pub(crate) fn results(results: &Results) -> Result<()> {
    let folder = workspace()?.join("target/bench");
    fs::create_dir_all(&folder)?;
    let text = serde_json::to_string_pretty(results)? + "\n";
    fs::write(folder.join("results.json"), text).context("cannot write the results")
}

/// Writes `target/bench/users.json`.
pub(crate) fn users(results: &[Felt]) -> Result<()> {
    let folder = workspace()?.join("target/bench");
    fs::create_dir_all(&folder)?;
    let text = serde_json::to_string_pretty(results)? + "\n";
    fs::write(folder.join("users.json"), text).context("cannot write what users feel")
}

/// Draws the plots of these tables in `target/bench`.
pub(crate) fn plots(tables: &[Table]) -> Result<()> {
    draw(tables, &workspace()?.join("target/bench"))
}

/// Writes `docs/measurements.md` with its plots next to it, and the figures of the README.
pub(crate) fn document(results: &Results, tables: &[Table]) -> Result<()> {
    let docs = workspace()?.join("docs");
    draw(tables, &docs.join("measurements"))?;
    let mut text = format!(
        "# Measurements\n\n`cargo xtask bench --record` writes this page.\nMachine: {}.\n\n\
         This is the quietest of {RUNS} whole runs. *Noise*: in half of the cases, the largest and the smallest figure of the\n\
         rounds differ by less than this part of their median. Figures are medians of interleaved rounds. Those of accuracy\n\
         and of a web server's users are single samples. Compare figures within this run only.\n\n\
         Sources arrive in random order, spread over IPv4. *Endless* means a new source for each packet. With real frames,\n\
         every limiter also drops the packets that pass, at its own hook. The tables of accuracy and *beside a flood* are the\n\
         exception: there the network stack receives them. *Ratio* lines compare a row with the rows that they name.\n\n\
         *Far over the limit*: each source may send one packet per minute.\n\n\
         *Beside a flood*, 64 users fetch pages from a web server on the CPU that receives the flood. Each column is a rate\n\
         of the flood. The limiters let each source of the flood send one packet per minute. *One line* is an XDP program that\n\
         drops the flood, and writes one of 131,072 cache lines for each packet. *Plain XDP drop* writes none.\n",
        report::header(results)
    );
    text += &doubtful(&report::doubts(results));
    text.extend(tables.iter().map(section));
    let before = fs::read_to_string(workspace()?.join(PAGE)).unwrap_or_default();
    for name in [FLEET, CHECK, VISITORS] {
        let part = pages::part(&before, name);
        if !part.is_empty() {
            text += &format!("\n{part}");
        }
    }
    fs::write(workspace()?.join(PAGE), text).context("cannot write the document")?;
    pages::record(README, FIGURES, readme::part(&results.live, &results.attacks).trim())
}

/// Writes the tables of fleets into `docs/measurements.md`, and their plots next to it.
pub(crate) fn fleet(machine: &Machine, tables: &[Table], doubts: &[String]) -> Result<()> {
    draw(tables, &workspace()?.join("docs/measurements"))?;
    let mut text = format!(
        "`cargo xtask bench --fleet --record` writes this part of the page, in a run of its own.\nMachine: {machine}.\n"
    );
    text += &doubtful(doubts);
    text.extend(tables.iter().map(section));
    pages::record(PAGE, FLEET, text.trim())
}

/// Writes the tables of the check interface into `docs/measurements.md`.
pub(crate) fn check(machine: &Machine, noise: f64, tables: &[Table]) -> Result<()> {
    let mut text = format!(
        "## Limits for requests\n\n`cargo xtask bench --check --record` writes this part of the page, in a run of its own.\n\
         Machine: {machine}, noise {:.1} %.\n",
        noise * 100.0
    );
    text.extend(tables.iter().map(section));
    pages::record(PAGE, CHECK, text.replace("\n## ", "\n### ").trim())
}

/// Writes the tables of new visitors into `docs/measurements.md`, and their summary into `docs/floods.md`.
pub(crate) fn visitors(machine: &Machine, tables: &[Table], summary: &Table) -> Result<()> {
    let mut text = format!(
        "## A new visitor's chance\n\n`cargo xtask bench --visitors --record` writes this part of the page, in a run of its own.\n\
         Machine: {machine}.\n"
    );
    text.extend(tables.iter().map(section));
    pages::record(PAGE, VISITORS, text.replace("\n## ", "\n### ").trim())?;
    pages::record(FLOODS, VISITORS, summary.markdown().trim())
}

/// The page of all measurements.
const PAGE: &str = "docs/measurements.md";
/// The page with a few of them.
const README: &str = "README.md";
/// The part of that page with figures.
const FIGURES: &str = "figures";
/// The page about floods.
const FLOODS: &str = "docs/floods.md";
/// The part of the page about fleets.
const FLEET: &str = "fleet";
/// The part of the page about limits for requests.
const CHECK: &str = "check";
/// The part of the page about new visitors.
const VISITORS: &str = "visitors";

/// Returns the paragraph about doubtful figures, if there are any.
fn doubtful(doubts: &[String]) -> String {
    if doubts.is_empty() {
        return String::new();
    }
    let head = "\nSome figures are doubtful, because their traffic was not as intended:\n\n".to_owned();
    doubts.iter().fold(head, |text, doubt| text + &format!("- {}\n", doubt.trim_start_matches("doubtful: ")))
}

/// Returns a table with its heading, its explanation and its plot.
fn section(table: &Table) -> String {
    let mut title = table.title.clone();
    title[..1].make_ascii_uppercase();
    let mut text = format!("\n## {title}\n\n");
    if !table.about.is_empty() {
        text += &format!("{}\n\n", table.about);
    }
    if let Some(name) = table.plot {
        text += &format!("![Plot of the table below](measurements/{name}.svg)\n\n");
    }
    text + &table.markdown()
}

fn draw(tables: &[Table], folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    let drawn = tables.iter().filter_map(|table| Some((table, table.plot?)));
    drawn.into_iter().try_for_each(|(table, name)| plot::draw(table, &folder.join(name).with_extension("svg")))
}

fn workspace() -> Result<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    folder.map(Path::to_owned).context("the benchmark is not in a workspace")
}
