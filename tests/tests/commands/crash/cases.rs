//! The commands that meet faults.

/// A command that adds or removes one rule, interface or setting, and how to see it.
#[derive(Clone, Copy)]
pub(super) struct Case {
    /// Commands that come first.
    pub(super) setup: &'static [&'static str],
    /// Commands that make the state before. They may fail. [`OTHER`] begins those of the other version.
    pub(super) reset: &'static [&'static str],
    /// The command that meets faults.
    pub(super) command: &'static str,
    /// Its standard input, also as the file [`INPUT`]. For a daemon, its file.
    pub(super) input: &'static str,
    /// Whether it adds the rule.
    pub(super) adds: bool,
    /// The command that lists the rule.
    pub(super) list: &'static str,
    /// What its JSON contains if the rule is listed.
    pub(super) listed: &'static str,
    /// When most UDP packets from 10.9.0.0/16 to port 9 are dropped.
    pub(super) drops: Drops,
}

/// When packets are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Drops {
    /// While the rule is listed.
    Listed,
    /// While it is not.
    Unlisted,
    /// Always.
    Always,
}

/// Before a command of the other version.
pub(super) const OTHER: &str = "other ";
/// Stands in commands of `reset` for the path of a file with the input.
pub(super) const INPUT: &str = "INPUT";
/// The command of the daemon, before the path of its file.
pub(super) const DAEMON: &str = "run -c ";

const ATTACH: &str = "attach eth0";
const LIMITED: &str = "attach eth0 --packets 1/h --burst 1 --cells 1024 --max-sources 1000";
const DENY: &str = "deny add 10.9.0.0/16";
const COMMENTED: &str = "deny add 10.9.0.0/16 --comment crash";
const COMMENT: &str = "\"comment\":\"crash\"";
const ALLOW: &str = "allow add 10.9.0.0/16";
const SERVICE: &str = "limit set default --service udp/9 --packets 1/h --burst 1";
const PARENT: &str = "limit set 10.9.0.0/16 --packets 1M/s --parent all=1/h";
const BAN: &str = "limit set 10.9.0.0/16 --packets 1/h --burst 1 --ban 1h";
/// A limit that drops nothing, and a rule that covers it for some time.
const UNDER: &str = "limit set 10.9.0.0/16 --packets 1M/s";
const TEMPORARY: &str = "deny add 10.9.0.0/16 --for 1h";
const LIST: &str = "10.9.0.0/16\n192.0.2.0/24\n192.0.3.1\n";
const FILE: &str = "interfaces = [\"eth0\"]\n[[rule]]\nsource = \"10.9.0.0/16\"\npolicy = \"deny\"\n\
                    comment = \"file\"\n[service.\"tcp/80\"]\npackets = \"10/s\"\nban = \"10s\"\n[service.\"udp/53\"]\ncost = 3\n\
                    [settings]\ncells = 1024\nmax-sources = 1000\n";

/// A named list that drops nothing.
const LIST_UNDER: &str = "list set drop INPUT --packets 1M/s";

/// A rule of denying.
const RULE: Case = Case {
    setup: &[ATTACH],
    reset: &[],
    command: "",
    input: "",
    adds: true,
    list: "deny list",
    listed: "10.9.0.0/16",
    drops: Drops::Listed,
};
const SERVICE_LIMIT: Case = Case { list: "limit list", listed: "udp/9", ..RULE };
const LIMIT: Case = Case { list: "limit list", ..RULE };
const COST: Case =
    Case { setup: &["attach eth0 --packets 1/h --burst 10"], list: "cost list", listed: "udp/9", ..RULE };
const PROGRAM: Case =
    Case { setup: &[LIMITED], list: "status", listed: "\"name\":\"eth1\"", drops: Drops::Always, ..RULE };
const NAMED_LIST: Case = Case { input: LIST, list: "list list", listed: "\"action\":\"deny\"", ..RULE };
const INSTANCE: Case = Case { listed: "\"name\":\"eth0\"", drops: Drops::Listed, ..PROGRAM };

pub(super) const CASES: &[Case] = &[
    Case { reset: &["deny del 10.9.0.0/16"], command: DENY, ..RULE },
    Case { reset: &[DENY], command: "deny del 10.9.0.0/16", adds: false, ..RULE },
    // A comment appears and goes with its rule.
    Case { reset: &["deny del 10.9.0.0/16"], command: COMMENTED, listed: COMMENT, ..RULE },
    Case { reset: &[COMMENTED], command: "deny del 10.9.0.0/16", listed: COMMENT, adds: false, ..RULE },
    // It never shows with another rule.
    Case {
        reset: &[
            "deny del 10.9.0.0/16",
            "limit del 10.9.0.0/16",
            "limit set 10.9.0.0/16 --packets 1M/s --comment other",
        ],
        command: COMMENTED,
        listed: COMMENT,
        ..RULE
    },
    Case { reset: &["limit del default --service udp/9"], command: SERVICE, ..SERVICE_LIMIT },
    Case { reset: &[SERVICE], command: "limit del default --service udp/9", adds: false, ..SERVICE_LIMIT },
    Case {
        setup: &[ATTACH, "limit set default --service icmp --packets 10/s"],
        reset: &["deny del 10.9.0.0/16 --service udp/9"],
        command: "deny add 10.9.0.0/16 --service udp/9",
        listed: "udp/9",
        ..RULE
    },
    Case {
        reset: &["limit del default"],
        command: "limit set default --packets 1/h --burst 1",
        listed: "\"source\":\"default\"",
        ..LIMIT
    },
    Case { setup: &[ATTACH, UNDER], reset: &["deny del 10.9.0.0/16"], command: TEMPORARY, ..RULE },
    Case { setup: &[ATTACH, UNDER], reset: &[TEMPORARY], command: "deny del 10.9.0.0/16", adds: false, ..RULE },
    Case { reset: &["limit del 10.9.0.0/16"], command: PARENT, ..LIMIT },
    Case { reset: &[PARENT], command: "limit del 10.9.0.0/16", adds: false, ..LIMIT },
    Case { reset: &["limit del 10.9.0.0/16"], command: BAN, ..LIMIT },
    Case { reset: &[BAN], command: "limit del 10.9.0.0/16", adds: false, ..LIMIT },
    Case {
        setup: &[LIMITED],
        reset: &["allow del 10.9.0.0/16"],
        command: ALLOW,
        list: "allow list",
        drops: Drops::Unlisted,
        ..RULE
    },
    Case {
        setup: &[LIMITED],
        reset: &[ALLOW],
        command: "allow del 10.9.0.0/16",
        adds: false,
        list: "allow list",
        drops: Drops::Unlisted,
        ..RULE
    },
    Case {
        setup: &[LIMITED],
        reset: &["allow del 10.9.0.0/16", "allow del 192.0.2.0/24", "allow del 192.0.3.1"],
        command: "allow add -",
        input: LIST,
        list: "allow list",
        drops: Drops::Unlisted,
        ..RULE
    },
    Case {
        reset: &["limit del 10.9.0.0/16", "limit del 192.0.2.0/24", "limit del 192.0.3.1"],
        command: "limit set - --packets 1/h --burst 1",
        input: LIST,
        ..LIMIT
    },
    Case { reset: &["cost del udp/9"], command: "cost set udp/9 5", ..COST },
    Case { reset: &["cost set udp/9 5"], command: "cost del udp/9", adds: false, ..COST },
    Case {
        reset: &["deny del 10.9.0.0/16", "deny del 192.0.2.0/24", "deny del 192.0.3.1"],
        command: "deny add -",
        input: LIST,
        ..RULE
    },
    Case {
        reset: &[DENY, "deny add 192.0.2.0/24", "deny add 192.0.3.1"],
        command: "deny del -",
        input: LIST,
        adds: false,
        ..RULE
    },
    Case { reset: &["list del drop"], command: "list set drop -", ..NAMED_LIST },
    Case { reset: &[LIST_UNDER], command: "list set drop -", ..NAMED_LIST },
    Case { reset: &["list set drop INPUT"], command: "list del drop", adds: false, ..NAMED_LIST },
    Case { reset: &["detach eth1"], command: "attach eth1", ..PROGRAM },
    Case { reset: &["attach eth1"], command: "detach eth1", adds: false, ..PROGRAM },
    Case {
        reset: &["attach eth0 --cells 1024 --max-sources 1000"],
        command: "attach eth0 --cells 2048 --max-sources 3000",
        listed: "\"cells\":2048",
        ..PROGRAM
    },
    Case { reset: &["set --unknown off"], command: "set --unknown 5k/s", listed: "\"per_second\":5000", ..PROGRAM },
    Case {
        reset: &["set --shadow off"],
        command: "set --shadow on",
        listed: "\"everything\":true",
        drops: Drops::Unlisted,
        ..PROGRAM
    },
    Case {
        setup: &[LIMITED, "attach eth1"],
        reset: &["set --shadow off --interface eth0"],
        command: "set --shadow on --interface eth0",
        listed: "\"shadow\":true",
        drops: Drops::Unlisted,
        ..PROGRAM
    },
    Case {
        setup: &[LIMITED, "attach eth1"],
        reset: &["set --shadow on --interface eth0"],
        command: "set --shadow off --interface eth0",
        listed: "\"shadow\":true",
        drops: Drops::Unlisted,
        adds: false,
        ..PROGRAM
    },
    Case {
        reset: &["attach eth0 --capacity off"],
        command: "attach eth0 --capacity 1000/s",
        listed: "\"capacity\":1000",
        ..PROGRAM
    },
    Case { setup: &[], reset: &["detach --all"], command: LIMITED, ..INSTANCE },
    Case { reset: &[LIMITED], command: "detach --all", adds: false, ..INSTANCE },
    Case { reset: &["other upgrade"], command: "upgrade", drops: Drops::Always, ..INSTANCE },
    Case { reset: &["deny del 10.9.0.0/16", "cost del udp/53"], command: DAEMON, input: FILE, ..RULE },
    Case { setup: &[], reset: &["detach --all"], command: DAEMON, input: FILE, ..INSTANCE },
];
