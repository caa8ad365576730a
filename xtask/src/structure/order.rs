//! Compares the arrows of a crate with the order of its rooms.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    arrows::Arrows,
    circles,
    module::Package,
    report::Graph,
    rooms::{FILE, Plan, Room},
};
use crate::finding::Finding;

/// The rooms of a package, and the room of each of its files.
#[derive(Debug)]
pub(super) struct Order {
    names: Vec<String>,
    of_file: BTreeMap<usize, usize>,
}

impl Order {
    /// Sorts the files into the rooms of `plan`.
    pub(super) fn new(package: &Package, plan: &Plan) -> (Self, Vec<Finding>) {
        let names: Vec<_> = plan.rooms.iter().map(|room| room.name.clone()).collect();
        let (mut of_file, mut findings) = (BTreeMap::new(), Vec::new());
        let mut wrong =
            |file: &str, problem: String| findings.push(Finding { file: file.to_owned(), line: 0, problem });
        let (mut paths, mut missing) = (BTreeSet::new(), BTreeSet::new());
        for (file, path) in files(package, &plan.folder) {
            for room in must_be_listed(&path, &package.files[file]) {
                if !names.contains(&room) && missing.insert(room.clone()) {
                    wrong(&package.files[file], format!("{FILE} does not list the room {room} of {}", plan.folder));
                }
            }
            let rooms = names.iter().enumerate().filter(|(_, room)| is_in(&path, room));
            let room = rooms.max_by_key(|(_, room)| room.len());
            of_file.extend(room.map(|(room, _)| (file, room)));
            paths.insert(path);
        }
        for Room { name, holds } in &plan.rooms {
            if !paths.iter().any(|path| is_in(path, name)) {
                wrong(FILE, format!("the room {name} of {} does not exist", plan.folder));
            }
            if !holds.ends_with('.') {
                wrong(FILE, format!("the room {name} of {} has no sentence that says what belongs there", plan.folder));
            }
        }
        (Self { names, of_file }, findings)
    }

    /// The rooms of a package without a plan: each folder and each file beside the root. They have no order.
    pub(super) fn unknown(package: &Package, folder: &str) -> Self {
        let mut order = Self { names: Vec::new(), of_file: BTreeMap::new() };
        for (file, path) in files(package, folder) {
            let name = must_be_listed(&path, &package.files[file]).pop().unwrap_or(path);
            let known = order.names.iter().position(|known| *known == name);
            let room = known.unwrap_or(order.names.len());
            if room == order.names.len() {
                order.names.push(name);
            }
            order.of_file.insert(file, room);
        }
        order
    }

    /// The arrows that lead to a room above, with the two files.
    pub(super) fn upward(&self, package: &Package, arrows: &Arrows) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (&(from, to), reference) in arrows {
            if let (Some(above), Some(below)) = (self.of_file.get(&to), self.of_file.get(&from))
                && above < below
            {
                findings.push(Finding {
                    file: package.files[from].clone(),
                    line: reference.line,
                    problem: format!(
                        "upward arrow: `{}` leads to {}, whose room {} stands above the room {}",
                        reference.text(),
                        package.files[to],
                        self.names[*above],
                        self.names[*below]
                    ),
                });
            }
        }
        findings
    }

    /// The graph between the rooms.
    pub(super) fn graph(&self, package: &Package, folder: &str, arrows: &Arrows) -> Graph {
        let mut between = BTreeSet::new();
        for (from, to) in arrows.keys() {
            if let (Some(from), Some(to)) = (self.of_file.get(from), self.of_file.get(to))
                && from != to
            {
                between.insert((*from, *to));
            }
        }
        let below = |room| between.iter().filter(move |(from, _)| *from == room).map(|(_, to)| self.names[*to].clone());
        let rooms = self.names.iter().enumerate().map(|(room, name)| (name.clone(), below(room).collect()));
        Graph {
            folder: folder.to_owned(),
            files: package.files.len(),
            arrows: arrows.len(),
            rooms: rooms.collect(),
            room_circles: circles::of(between.iter().copied()).len(),
            ..Graph::default()
        }
    }
}

/// The files below `src`, each with its path there as rooms are named: without `.rs`, `/mod` and a program's `/main`.
fn files(package: &Package, folder: &str) -> impl Iterator<Item = (usize, String)> {
    let source = format!("{folder}/src/");
    package.files.iter().enumerate().filter_map(move |(file, name)| {
        let path = name.strip_prefix(&source)?.trim_end_matches(".rs");
        let path = path.strip_suffix("/mod").or_else(|| path.strip_suffix("/main")).unwrap_or(path);
        Some((file, path.to_owned()))
    })
}

/// Whether a file of this path is in a room.
fn is_in(path: &str, room: &str) -> bool {
    path.strip_prefix(room).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Rooms that must be listed for a file: its folders, or itself if it is beside the crate's root.
fn must_be_listed(path: &str, file: &str) -> Vec<String> {
    let owns_folder = ["/mod.rs", "/main.rs"].iter().any(|name| file.ends_with(name)) && path != "main";
    let parents = path.match_indices('/').map(|(end, _)| path[..end].to_owned());
    let mut rooms: Vec<_> = parents.filter(|room| room != "bin").collect();
    if rooms.is_empty() || owns_folder {
        rooms.push(path.to_owned());
    }
    rooms
}
