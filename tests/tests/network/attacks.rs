//! The attacks of the library, each within its bound.

use ratelimit_tests::attacks::ALL;

use crate::receiver::alone;

/// Plays an attack and asserts its bound.
fn assert_held(name: &str) {
    let _alone = alone();
    let attack = ALL.iter().find(|attack| attack.name == name).unwrap();
    let row = (attack.play)();
    println!("{row:?}");
    assert_eq!(row.problem(), None, "{row:?}");
}

/// Makes a test of each attack.
macro_rules! attacks {
    ($($name:ident),+ $(,)?) => {
        $(
            #[test]
            fn $name() {
                assert_held(stringify!($name));
            }
        )+
    };
}

attacks!(new_sources, new_sources_with_unknown_limited, ban_table);
