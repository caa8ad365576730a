//! Limits: in the default, and in policies.

use super::problems;

#[test]
fn every_problem_with_a_limit_is_named() {
    for (text, expected) in [
        ("default = \"1/s\"", "1:11: \"1/s\": expected a table"),
        ("[default]", "1:1: [default]: a limit needs packets RATE, bytes RATE or parent SCOPE=RATE, or `policy`"),
        (
            "[default]\npackets = \"0/s\"",
            "2:11: \"0/s\": a rate of zero would drop every packet: use `ratelimit deny add` for that",
        ),
        ("[default]\npackets = \"200M/s\"", "1:1: [default]: a packet rate must be between 1/d and 100M/s"),
        ("[default]\npackets = \"0.1/d\"", "1:1: [default]: a packet rate must be between 1/d and 100M/s"),
        (
            "[default]\npackets = [\"1/s\", \"2/m\", \"3/h\"]",
            "1:1: [default]: a source has at most two limits: give packets one or two rates",
        ),
        (
            "[default]\npackets = [\"1/s\", \"2/m\"]\nbytes = \"1MB/s\"",
            "1:1: [default]: a source can have two limits: two of packets, or one of packets and one of bytes",
        ),
        ("[default]\npackets = {}", "2:11: {}: expected text in quotes, a number, or true or false"),
        (
            "[default]\nbytes = \"10\"",
            "2:9: \"10\": expected bytes or bits per s, m, h or d, such as 10MB/s or 100Mbit/s",
        ),
        (
            "[default]\nbytes = \"0B/s\"",
            "2:9: \"0B/s\": a rate of zero would drop every packet: use `ratelimit deny add` for that",
        ),
        ("[default]\nbytes = \"60GB/s\"", "1:1: [default]: a byte rate must be between 1B/s and 50GB/s (400Gbit/s)"),
        ("[default]\nbytes = [\"1MB/s\", \"2MB/s\"]", "2:9: [\"1MB/s\", \"2MB/s\"]: expected one value"),
        ("[default]\npackets = \"1/s\"\nburst = 0", "1:1: [default]: a burst must be at least 1 packet"),
        ("[default]\npackets = \"1/s\"\nburst = 1.5", "3:9: 1.5: expected a whole number"),
        ("[default]\npackets = \"1/s\"\nburst = \"many\"", "3:9: \"many\": expected a whole number"),
        (
            "[default]\npackets = \"1/d\"\nburst = 100",
            "1:1: [default]: a burst must drain within 52 days: at this rate, at most 52 packets",
        ),
        (
            "[default]\npackets = \"1/s\"\nqueue = 3",
            "3:1: queue: unknown key: expected packets, bytes, burst, algorithm, throttle, over-limit, ban, ban-after, ban-cap, parent, comment, policy",
        ),
        (
            "[default]\npackets = \"1/s\"\nalgorithm = \"tokens\"",
            "3:13: \"tokens\": expected token-bucket, leaky-bucket, fixed-window, sliding-window or sliding-log",
        ),
        (
            "[default]\nalgorithm = \"leaky-bucket\"",
            "1:1: [default]: algorithm, throttle, over-limit and ban need a limit: also give packets RATE or bytes RATE",
        ),
        (
            "[default]\nalgorithm = \"leaky-bucket\"\nparent = \"all=1/s\"",
            "1:1: [default]: algorithm applies to the source's own limit: also give packets RATE or bytes RATE, or omit algorithm",
        ),
        (
            "[default]\npackets = \"1/s\"\nalgorithm = \"fixed-window\"\nburst = 3",
            "1:1: [default]: fixed-window has no burst: what its rate says may come at any time of a window. Leave burst away",
        ),
        (
            "[default]\npackets = \"100/s\"\nalgorithm = \"sliding-log\"",
            "1:1: [default]: sliding-log counts up to 64 in a window of this length: give a smaller rate, or another algorithm",
        ),
        (
            "[default]\npackets = \"100M/s\"\nalgorithm = \"sliding-window\"",
            "1:1: [default]: sliding-window counts up to 16711679 in a window of this length: give a smaller rate, or another algorithm",
        ),
        (
            "[default]\nbytes = \"1kB/s\"\nalgorithm = \"sliding-log\"",
            "1:1: [default]: sliding-log counts packets, not bytes: choose another algorithm",
        ),
        (
            "[default]\npackets = \"1/s\"\nalgorithm = \"fixed-window\"\nparent = \"all=1/s\"",
            "1:1: [default]: parent needs token-bucket or leaky-bucket: choose one of these algorithms, or omit parent",
        ),
        (
            "[default]\nthrottle = \"soft=10%\"",
            "1:1: [default]: algorithm, throttle, over-limit and ban need a limit: also give packets RATE or bytes RATE",
        ),
        (
            "[default]\npackets = \"1/s\"\nthrottle = \"soft\"",
            "3:12: \"soft\": expected hard, elastic, or soft with a share from 1% to 100%, such as soft=10%",
        ),
        (
            "[default]\npackets = \"1/d\"\nthrottle = \"soft=10%\"",
            "1:1: [default]: 10 % of this limit is less than one packet or a rate below 1/d: give a larger share",
        ),
        (
            "[default]\nparent = \"all=1/s\"\nthrottle = \"soft=10%\"",
            "1:1: [default]: throttle soft needs packets or bytes, and cannot be used with parent",
        ),
        (
            "[default]\nparent = \"all=1/s\"\nban = \"1m\"",
            "1:1: [default]: ban needs packets or bytes, and cannot be used with parent",
        ),
        ("[default]\npackets = \"1/s\"\nover-limit = \"pass\"", "3:14: \"pass\": expected one of drop, reject, shadow"),
        (
            "[default]\npackets = \"1/s\"\nban = \"soon\"",
            "3:7: \"soon\": expected a number and s, m, h or d, such as 90s, 10m, 2h or 7d; without a letter, seconds",
        ),
        ("[default]\npackets = \"1/s\"\nban = 0", "3:7: 0: expected a time above 0, such as 90s, 10m, 2h or 7d"),
        ("[default]\npackets = \"1/s\"\nban = \"1m\"\nban-after = 0", "4:13: 0: expected a number from 1 to 16777215"),
        (
            "[default]\npackets = \"1/s\"\nban-cap = \"1h\"",
            "1:1: [default]: ban-after and ban-cap need ban: also give ban DURATION",
        ),
        (
            "[default]\npackets = \"1/s\"\nban = \"1h\"\nban-cap = \"1m\"",
            "1:1: [default]: ban-cap is shorter than ban: give at least the time of ban",
        ),
        (
            "[default]\npackets = \"1/s\"\nthrottle = \"elastic\"\nban = \"1m\"",
            "1:1: [default]: throttle elastic needs the capacity of an interface: add capacity to [interface.NAME]",
        ),
        (
            "[default]\npackets = \"1/s\"\nthrottle = \"soft=10%\"\nban = \"1m\"\nover-limit = \"shadow\"",
            "1:1: [default]: ban cannot be used with over-limit shadow, which lets packets pass: omit one of the two options",
        ),
        (
            "[default]\nparent = \"all\"",
            "2:10: \"all\": expected SCOPE=RATE, such as /24=20k/s, interface=100MB/s or all=500k/s,1GB/s",
        ),
        (
            "[default]\nparent = \"net=1/s\"",
            "2:10: \"net=1/s\": expected /BITS, interface or all before the equals sign",
        ),
        ("[default]\nparent = \"/128=1/s\"", "2:10: \"/128=1/s\": expected from 1 to 127 bits after the slash"),
        (
            "[default]\nparent = \"/24=fast\"",
            "2:10: \"/24=fast\": expected a rate of packets or bytes after the equals sign, such as 20k/s or 100MB/s",
        ),
        (
            "[default]\nparent = \"all=1/s,2/s\"",
            "2:10: \"all=1/s,2/s\": expected at most one rate of packets and one of bytes",
        ),
        (
            "[default]\nparent = [\"all=1/s\", \"all=2/s\"]",
            "1:1: [default]: two parents have the same scope: give both rates in one, as in parent all=500k/s,1GB/s",
        ),
        (
            "[default]\nparent = [\"/8=1/s\", \"/16=1/s\", \"all=2/s\"]",
            "1:1: [default]: IPv4 sources would have more than 2 parents, the maximum: omit one parent",
        ),
        (
            "[default]\nparent = \"/64=1/s\"",
            "1:1: [default]: parent /64 is no wider than a source, which has 64 bits (in a default, up to 32 bits mean IPv4: for all of IPv6, set the limit of ::/0)",
        ),
        (
            "[[rule]]\nsource = \"10.0.0.0/8\"\nparent = \"/32=1/s\"",
            "1:1: [[rule]]: parent /32 is no wider than a source, which has 32 bits (in a default, up to 32 bits mean IPv4: for all of IPv6, set the limit of ::/0)",
        ),
        (
            "[default]\nparent = \"all=0/s\"",
            "2:10: \"all=0/s\": expected a rate of packets or bytes after the equals sign, such as 20k/s or 100MB/s",
        ),
        ("policy = 3", "1:10: 3: expected a table"),
        ("[policy]\np = \"1/s\"", "2:5: \"1/s\": expected a table"),
        ("[policy.p]", "1:1: [policy.p]: a limit needs packets RATE, bytes RATE or parent SCOPE=RATE"),
        ("[policy.p]\nburst = 3", "1:1: [policy.p]: a limit needs packets RATE, bytes RATE or parent SCOPE=RATE"),
        ("[policy.deny]\npackets = \"1/s\"", "1:1: [policy.deny]: this name is reserved: choose another name"),
        (
            "[policy.p]\npackets = \"1/s\"\n[default]\npolicy = \"q\"",
            "4:10: \"q\": no such policy: expected p, allow, deny",
        ),
        ("[policy.p]\npackets = \"1/s\"\n[default]\npolicy = 3", "4:10: 3: expected text in quotes"),
        (
            "[policy.p]\npackets = \"1/s\"\n[default]\npolicy = \"p\"\nburst = 3",
            "5:1: burst: there is `policy` too: give either `policy` or the keys of a limit",
        ),
        (
            "[policy.p]\npackets = \"1/s\"\n[default]\npolicy = \"p\"\nqueue = 3",
            "5:1: queue: there is `policy` too: give either `policy` or the keys of a limit",
        ),
        ("[default]\npackets = \"1/s\"\nburst = -1", "3:9: -1: expected a whole number"),
    ] {
        assert_eq!(problems(text), [expected], "{text}");
    }
}
