//! Recomputes everything that follows from rules and costs, after a change that has failed or was killed. Then whatever
//! commands list acts, and nothing else.

use crate::{
    Error,
    rules::{
        comments, costs, filter,
        policies::{
            self,
            lanes::{self, LanePairs},
        },
        services,
    },
    tables::open::Tables,
};

/// Makes the program see what is in the maps that commands read. Of these lanes, the second ones may be in force now.
pub fn repair(tables: &mut Tables, pairs: &LanePairs) -> Result<(), Error> {
    // First, because most changes need only this to act.
    tables.renew()?;
    lanes::raise_again(tables, pairs)?;
    services::repair(tables)?;
    filter::renew(tables)?;
    policies::renew_debt(tables)?;
    costs::repair(tables)?;
    comments::repair(tables)
}
