//! The program as a whole.

mod size;
