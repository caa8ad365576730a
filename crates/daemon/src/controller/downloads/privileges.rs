//! Gives up every privilege, for good.

use std::{fs::File, io};

use rustix::{
    fs::{Gid, Uid},
    process::{DumpableBehavior, Resource, Rlimit, geteuid, set_dumpable_behavior, setrlimit, setsid},
    thread::{
        CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs, set_thread_groups,
        set_thread_res_gid, set_thread_res_uid,
    },
};

/// The user and group without any files: nobody.
const NOBODY: u32 = 65_534;

/// The most open files.
const FILES: u64 = 64;

/// Why privileges cannot be given up.
#[derive(Debug, thiserror::Error)]
pub(super) enum PrivilegeError {
    /// The user cannot be changed.
    #[error(
        "nothing is fetched with root privileges, and the daemon cannot give them up ({0}): give it CAP_SETUID and \
         CAP_SETGID (docs/configuration.md has the lines for its unit)"
    )]
    User(io::Error),
    /// A capability stays.
    #[error("nothing is fetched with privileges, and the daemon cannot give them up: {0}")]
    Other(io::Error),
}

/// Gives up the user root, all capabilities, and the means to get them back. No other thread may exist yet.
pub(super) fn give_up() -> Result<(), PrivilegeError> {
    let other = |error: rustix::io::Errno| PrivilegeError::Other(error.into());
    // The process could otherwise write into the terminal of the daemon as if its operator had typed that.
    if let Err(error) = setsid()
        && File::open("/dev/tty").is_ok()
    {
        return Err(other(error));
    }
    set_no_new_privs(true).map_err(other)?;
    if geteuid().is_root() {
        let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
        set_thread_groups(&[])
            .and_then(|()| set_thread_res_gid(group, group, group))
            .and_then(|()| set_thread_res_uid(user, user, user))
            .map_err(|error| PrivilegeError::User(error.into()))?;
    }
    let none = CapabilitySet::empty();
    let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
    if capabilities(None).map_err(other)? != none {
        set_capabilities(None, none).map_err(other)?;
    }
    // Other processes of this user could otherwise read the token from the memory.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(other)?;
    for (resource, most) in [(Resource::Core, 0), (Resource::Fsize, 0), (Resource::Nofile, FILES)] {
        // These only confine the process further. A unit can forbid the call.
        let _ = setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) });
    }
    Ok(())
}
