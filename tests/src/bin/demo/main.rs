//! Shows the main job on real traffic.

fn main() {}
