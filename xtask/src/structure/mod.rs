//! Checks the structure of the source tree: the module graph of each crate against `rooms.toml`, files that no module
//! declares, and sizes.
//!
//! An arrow leads from each file to every file whose items it uses. Imports, paths in code, macros and attributes
//! count, and re-exports are followed. Code that only tests compile does not count.

mod arrows;
mod circles;
mod collect;
mod extensions;
mod load;
mod module;
mod order;
mod orphans;
mod report;
mod resolve;
mod rooms;
mod sizes;
#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::{Context as _, Result};

use self::{arrows::Arrows, circles::Circle, module::Package, order::Order};
pub use self::{
    report::{Graph, Report},
    rooms::{FILE, Plan, Room, Rooms},
};
use crate::finding::Finding;

/// Checks the workspace in `root`. One without `rooms.toml` has no order, so that only circles are found.
///
/// # Errors
///
/// Fails if a file cannot be read or parsed.
pub fn check(root: &Path) -> Result<Report> {
    let rooms = if root.join(FILE).is_file() { Some(Rooms::read(root)?) } else { None };
    let mut report = Report::default();
    for folder in members(root)? {
        let plan = rooms.as_ref().map(|rooms| rooms.plans.iter().find(|plan| plan.folder == folder));
        match plan {
            Some(None) => report.findings.push(Finding {
                file: FILE.to_owned(),
                line: 0,
                problem: format!("the crate {folder} has no rooms"),
            }),
            Some(Some(plan)) => graph(root, &folder, Some(plan), &mut report)?,
            None => graph(root, &folder, None, &mut report)?,
        }
        let in_kernel = rooms.as_ref().is_some_and(|rooms| rooms.kernel.contains(&folder));
        let most = if in_kernel { sizes::MOST_KERNEL_LINES } else { sizes::MOST_LINES };
        report.findings.extend(sizes::check(root, &folder, most)?);
    }
    report.findings.sort();
    Ok(report)
}

/// Folders of the workspace's crates.
fn members(root: &Path) -> Result<Vec<String>> {
    let manifest = fs::read_to_string(root.join("Cargo.toml")).context("cannot read Cargo.toml")?;
    let manifest: toml::Table = manifest.parse().context("cannot parse Cargo.toml")?;
    let members = manifest.get("workspace").and_then(|workspace| workspace.get("members")?.as_array());
    let members = members.context("Cargo.toml lists no members of the workspace")?;
    Ok(members.iter().filter_map(|member| member.as_str().map(str::to_owned)).collect())
}

/// Adds the graph of one crate, and what is wrong with it.
fn graph(root: &Path, folder: &str, plan: Option<&Plan>, report: &mut Report) -> Result<()> {
    let package = load::package(root, folder)?;
    report.findings.extend(orphans::of(root, folder, &package)?);
    let (extended, foreign) = extensions::of(&package);
    let arrows = arrows::of(&package, &extended);
    let circles = circles::of(arrows.keys().copied());
    let (order, unlisted) = match plan {
        Some(plan) => Order::new(&package, plan),
        None => (Order::unknown(&package, folder), Vec::new()),
    };
    let upward = if plan.is_some() { order.upward(&package, &arrows) } else { Vec::new() };
    let (upwards, circle_count) = (upward.len(), circles.len());
    let circles = circles.iter().map(|circle| describe(&package, &arrows, circle));
    report.findings.extend(circles.chain(foreign).chain(unlisted).chain(upward));
    report.graphs.push(Graph { upward: upwards, circles: circle_count, ..order.graph(&package, folder, &arrows) });
    Ok(())
}

/// Names every step of the shortest way around, and the other files of the circle.
fn describe(package: &Package, arrows: &Arrows, circle: &Circle) -> Finding {
    let steps = circle.way.iter().zip(circle.way.iter().cycle().skip(1));
    let steps: Vec<_> = steps
        .filter_map(|(from, to)| {
            let reference = arrows.get(&(*from, *to))?;
            let [from, to] = [from, to].map(|file| &package.files[*file]);
            Some((from, reference, to))
        })
        .collect();
    let lines = steps.iter().map(|(from, at, to)| format!("{from}:{} uses `{}` of {to}", at.line, at.text()));
    let mut problem = format!("circle: {}", lines.collect::<Vec<_>>().join(", "));
    let on_way: BTreeSet<_> = circle.way.iter().collect();
    let others: Vec<_> =
        circle.nodes.iter().filter(|node| !on_way.contains(node)).map(|node| package.files[*node].as_str()).collect();
    if !others.is_empty() {
        problem += &format!("; {} more files are in it: {}", others.len(), others.join(", "));
    }
    let (file, line) = steps.first().map_or((String::new(), 0), |(from, at, _)| ((*from).clone(), at.line));
    Finding { file, line, problem }
}
