//! Finds a circle: a way along arrows that returns to its beginning.

use std::collections::{BTreeMap, VecDeque, btree_map::Entry};

type Graph = BTreeMap<usize, Vec<usize>>;

/// Returns a shortest circle among these arrows.
pub(super) fn shortest(arrows: impl Iterator<Item = (usize, usize)>) -> Option<Vec<usize>> {
    let mut graph = Graph::new();
    arrows.for_each(|(from, to)| graph.entry(from).or_default().push(to));
    graph.keys().filter_map(|node| way_around(&graph, *node)).min_by_key(Vec::len)
}

/// A shortest way from `start` back to it, with it at both ends.
fn way_around(graph: &Graph, start: usize) -> Option<Vec<usize>> {
    let (mut before, mut open) = (BTreeMap::new(), VecDeque::from([start]));
    while let Some(node) = open.pop_front() {
        for &next in graph.get(&node).into_iter().flatten() {
            if next == start {
                let mut way = vec![start, node];
                while let Some(earlier) = way.last().and_then(|node| before.get(node)) {
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
    use super::shortest;

    #[test]
    fn arrows_in_one_direction_make_no_circle() {
        assert_eq!(shortest([(1, 2), (1, 3), (2, 4), (3, 4)].into_iter()), None);
    }

    #[test]
    fn a_shortest_circle_is_found() {
        let arrows = [(1, 2), (2, 3), (3, 1), (3, 4), (4, 3), (4, 5)];
        assert_eq!(shortest(arrows.into_iter()), Some(vec![3, 4, 3]));
    }
}
