//! The rule for links: each leads to a file of the project, and to a heading that it has. Other hosts are not asked.

use std::{
    fs,
    path::{Component, Path, PathBuf},
};

use crate::finding::Finding;

use super::page::{Link, Page};

/// Beginnings of addresses that lead elsewhere.
const ELSEWHERE: [&str; 3] = ["https:", "http:", "mailto:"];

/// Finds the links that lead nowhere.
pub(super) fn check(root: &Path, page: &Page) -> Vec<Finding> {
    let wrong = page.links.iter().filter_map(|link| {
        let problem = problem(root, page, link)?;
        Some(Finding { file: page.name.clone(), line: link.line, problem })
    });
    wrong.collect()
}

fn problem(root: &Path, page: &Page, link: &Link) -> Option<String> {
    let Some(address) = &link.address else { return Some(format!("the link {} has no address", link.text)) };
    if ELSEWHERE.iter().any(|begin| address.starts_with(begin)) {
        return None;
    }
    let (path, anchor) = address.split_once('#').unwrap_or((address, ""));
    if path.is_empty() {
        return (!page.anchors.contains(anchor)).then(|| format!("this page has no heading #{anchor}"));
    }
    let Some(name) = inside(&Path::new(&page.name).with_file_name(path)) else {
        return Some(format!("the link {address} leads out of the project"));
    };
    let target = root.join(&name);
    if !target.exists() {
        return Some(format!("the link {address} leads to no file"));
    }
    let is_there = match target.extension().and_then(|extension| extension.to_str()) {
        _ if anchor.is_empty() => true,
        Some("md") => Page::read(root, &name.display().to_string()).is_ok_and(|page| page.anchors.contains(anchor)),
        _ => {
            line(anchor).is_some_and(|line| fs::read_to_string(&target).is_ok_and(|text| line <= text.lines().count()))
        }
    };
    (!is_there).then(|| format!("{} has no heading or line #{anchor}", name.display()))
}

/// A path without `.` and `..`; none if it leads out of the root.
fn inside(path: &Path) -> Option<PathBuf> {
    let mut inside = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => inside.push(name),
            Component::CurDir => {}
            Component::ParentDir => inside.pop().then_some(())?,
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(inside)
}

/// The line that `L12` means in a source file.
fn line(anchor: &str) -> Option<usize> {
    anchor.strip_prefix('L')?.parse().ok()
}
