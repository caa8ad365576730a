//! Finds circles: groups of files that depend on each other.

use std::collections::{BTreeMap, BTreeSet, VecDeque, btree_map::Entry};

/// What each node has arrows to.
type Graph = BTreeMap<usize, BTreeSet<usize>>;

/// A group of nodes each of which can be reached from each other.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Circle {
    /// All nodes of the group.
    pub(super) nodes: BTreeSet<usize>,
    /// A shortest way around; its first node comes again after the last.
    pub(super) way: Vec<usize>,
}

/// The circles among these arrows.
pub(super) fn of(arrows: impl Iterator<Item = (usize, usize)>) -> Vec<Circle> {
    let mut graph = Graph::new();
    for (from, to) in arrows {
        graph.entry(from).or_default().insert(to);
    }
    let reached: BTreeMap<usize, BTreeSet<usize>> = graph.keys().map(|node| (*node, reach(&graph, *node))).collect();
    let reaches = |from: usize, to: usize| reached.get(&from).is_some_and(|nodes| nodes.contains(&to));
    let mut circles: Vec<Circle> = Vec::new();
    for &node in graph.keys().filter(|node| reaches(**node, **node)) {
        if circles.iter().all(|circle| !circle.nodes.contains(&node)) {
            let nodes: BTreeSet<_> =
                graph.keys().copied().filter(|other| reaches(node, *other) && reaches(*other, node)).collect();
            let ways = nodes.iter().filter_map(|start| way_around(&graph, *start));
            let way = ways.min_by_key(Vec::len).unwrap_or_default();
            circles.push(Circle { nodes, way });
        }
    }
    circles
}

/// Every node that arrows lead to from `start`.
fn reach(graph: &Graph, start: usize) -> BTreeSet<usize> {
    let (mut found, mut open) = (BTreeSet::new(), vec![start]);
    while let Some(node) = open.pop() {
        let next = graph.get(&node).into_iter().flatten().copied();
        open.extend(next.filter(|next| found.insert(*next)));
    }
    found
}

/// A shortest way from `start` back to it.
fn way_around(graph: &Graph, start: usize) -> Option<Vec<usize>> {
    let (mut before, mut open) = (BTreeMap::new(), VecDeque::from([start]));
    while let Some(node) = open.pop_front() {
        for &next in graph.get(&node).into_iter().flatten() {
            if next == start {
                let mut way = vec![node];
                while let Some(earlier) = before.get(way.last()?) {
                    way.push(*earlier);
                }
                way.reverse();
                return Some(way);
            }
            if let Entry::Vacant(entry) = before.entry(next) {
                entry.insert(node);
                open.push_back(next);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::of;

    fn groups(arrows: &[(usize, usize)]) -> Vec<(Vec<usize>, Vec<usize>)> {
        of(arrows.iter().copied()).into_iter().map(|circle| (circle.nodes.into_iter().collect(), circle.way)).collect()
    }

    #[test]
    fn arrows_in_one_direction_make_no_circle() {
        assert_eq!(groups(&[(1, 2), (1, 3), (2, 4), (3, 4)]), []);
    }

    #[test]
    fn each_group_is_found_once_with_its_shortest_way() {
        let arrows = [(1, 2), (2, 3), (3, 1), (3, 4), (4, 3), (4, 5), (6, 7), (7, 6)];
        assert_eq!(groups(&arrows), [(vec![1, 2, 3, 4], vec![3, 4]), (vec![6, 7], vec![6, 7])]);
    }
}
