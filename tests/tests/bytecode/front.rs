//! Whether the program under test has cells, as set by `attach --front on|off`.

use ratelimit_dataplane::program::loader::Settings;

/// The value of `--front` in a test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Front {
    On,
    Off,
}

impl Front {
    pub(crate) fn is_on(self) -> bool {
        self == Self::On
    }

    /// Returns the settings of a test.
    pub(crate) fn settings(self) -> Settings {
        Settings { cells: if self.is_on() { 1 << 14 } else { 0 }, ..Settings::default() }
    }
}

/// Defines two tests for each function that takes a [`Front`]: `with_cells::NAME` and `without_cells::NAME`.
macro_rules! with_and_without_cells {
    ($($test:ident),+ $(,)?) => {
        mod with_cells {
            $(
                #[test]
                fn $test() {
                    super::$test(crate::front::Front::On);
                }
            )+
        }

        mod without_cells {
            $(
                #[test]
                fn $test() {
                    super::$test(crate::front::Front::Off);
                }
            )+
        }
    };
}

pub(crate) use with_and_without_cells;
