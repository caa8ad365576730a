//! Services and rules.

use ratelimit_common::limits::policy::{ALLOW, LIMIT};

use super::{parse, problems};

#[test]
fn every_problem_with_a_service_or_a_rule_is_named() {
    for (text, expected) in [
        ("service = 3", "1:11: 3: expected a table"),
        ("[service]\n\"udp/53\" = 3", "2:12: 3: expected a table"),
        (
            "[service.\"udp/x\"]\ncost = 3",
            "1:10: \"udp/x\": expected a port from 0 to 65535 or a range (8000-8099) after the slash; for others, give each its own rule",
        ),
        (
            "[service.\"icmp/3\"]\ncost = 3",
            "1:10: \"icmp/3\": only tcp, udp and sctp have ports: omit the slash and the port",
        ),
        (
            "[service.44]\ncost = 3",
            "1:10: 44: 44 is an IPv6 extension header, not a service: packets are matched by the protocol after it",
        ),
        ("[service.icmpv6]\ncost = 3", "1:10: icmpv6: ICMP is one service for IPv4 and IPv6: write icmp"),
        ("[service.udp]\ncost = 0", "2:8: 0: expected a number from 1 to 50"),
        ("[service.udp]\ncost = \"three\"", "2:8: \"three\": expected a number from 1 to 50"),
        ("[service.udp]\ncost = {}", "2:8: {}: expected text in quotes, a number, or true or false"),
        ("[service.udp]\ncosts = 3", "2:1: costs: unknown key: did you mean cost?"),
        (
            "[service.udp]\ncost = 3\npolicy = \"deny\"",
            "3:10: \"deny\": a default must be a limit: add rules for 0.0.0.0/0 and ::/0 instead",
        ),
        (
            "[service.udp]\ncost = 3\n[service.\"17\"]\npackets = \"1/s\"",
            "1:10: udp: the same service as 17: put everything into one table",
        ),
        (
            "[service.\"tcp/90-80\"]\ncost = 3",
            "1:10: \"tcp/90-80\": the range of ports ends before it begins: write 80-90",
        ),
        (
            "[service.\"tcp/80-90\"]\ncost = 3\n[[rule]]\nsource = \"10.0.0.1\"\nservice = \"tcp/90\"\npolicy = \"deny\"",
            "3:1: [[rule]]: tcp/90 overlaps tcp/80-90 in this file: a port belongs to one service only",
        ),
        ("allow = \"10.0.0.1\"", "1:9: \"10.0.0.1\": expected a list of addresses in brackets"),
        ("allow = []", "1:9: []: the list is empty: add addresses, or remove this key"),
        (
            "allow = [\"10.0.0.1\", \"10.0.0.1/8\"]",
            "1:22: \"10.0.0.1/8\": the address has bits set beyond the prefix: write 10.0.0.0/8 or 10.0.0.1",
        ),
        (
            "allow = [\"10.0.0.1\"]\n[[rule]]\nsources = [\"10.0.0.2\", \"10.0.0.1\"]\npolicy = \"deny\"",
            "3:24: \"10.0.0.1\": 10.0.0.1 already has a rule, in line 1",
        ),
        (
            "[[rule]]\nsource = \"10.0.0.1\"\nsources = [\"10.0.0.2\"]\npolicy = \"deny\"",
            "3:11: [\"10.0.0.2\"]: the rule has source, too: put all addresses into sources",
        ),
        ("[[rule]]\nsources = []\npolicy = \"deny\"", "2:11: []: the list is empty: add addresses, or remove this key"),
        (
            "[[rule]]\nsources = [\"10.0.0.1\", \"10.0.0.2\"]\npackets = \"0/s\"",
            "3:11: \"0/s\": a rate of zero would drop every packet: use `ratelimit deny add` for that",
        ),
        (
            "[rule]\nsource = \"10.0.0.1\"",
            "1:1: [rule]: expected [[rule]] in two pairs of brackets: each of them is one table of many",
        ),
        ("rule = 3", "1:8: 3: expected [[rule]] in two pairs of brackets: each of them is one table of many"),
        ("rule = [3]", "1:9: 3: expected a table"),
        ("[[rule]]\nsource = 3\npolicy = \"deny\"", "2:10: 3: expected text in quotes"),
        (
            "[[rule]]\nsource = \"10.0.0.1/8\"\npolicy = \"deny\"",
            "2:10: \"10.0.0.1/8\": the address has bits set beyond the prefix: write 10.0.0.0/8 or 10.0.0.1",
        ),
        (
            "[[rule]]\nsource = \"10.0.0.0/33\"\npolicy = \"deny\"",
            "2:10: \"10.0.0.0/33\": expected at most 32 bits after the slash",
        ),
        (
            "[[rule]]\nsource = \"::ffff:10.0.0.1\"\npolicy = \"deny\"",
            "2:10: \"::ffff:10.0.0.1\": packets carry the IPv4 address instead: write 10.0.0.1",
        ),
        ("[[rule]]\nsource = \"10.0.0.1\"\nservice = 53\npolicy = \"deny\"", "3:11: 53: expected text in quotes"),
        (
            "[[rule]]\nsource = \"10.0.0.1\"\nservice = \"dns\"\npolicy = \"deny\"",
            "3:11: \"dns\": expected tcp, udp or sctp with or without a port (udp/53), tcp-syn, icmp, gre, esp, ah, ipip, or a protocol number",
        ),
        ("[[rule]]\nsource = \"10.0.0.1\"\ncomment = 3\npolicy = \"deny\"", "3:11: 3: expected text in quotes"),
        (
            "[[rule]]\nsource = \"10.0.0.1\"\nuntil = 07:32:00\npolicy = \"deny\"",
            "3:9: 07:32:00: expected a date, a time and its zone, such as 2030-01-31T12:00:00Z",
        ),
        (
            "[[rule]]\nsource = \"default\"\nuntil = 2030-01-01T00:00:00Z\npackets = \"1/s\"",
            "1:1: [[rule]]: a default cannot expire: remove until, or add rules for 0.0.0.0/0 and ::/0 instead",
        ),
        (
            "[[rule]]\nsource = \"default\"\npolicy = \"allow\"",
            "3:10: \"allow\": a default must be a limit: add rules for 0.0.0.0/0 and ::/0 instead",
        ),
        (
            "[[rule]]\nsource = \"10.0.0.1\"\npolicy = \"limit\"",
            "3:10: \"limit\": no such policy: expected allow, deny",
        ),
        ("[[rule]]\nsource = \"10.0.0.1\"\nsource = \"10.0.0.2\"\npolicy = \"deny\"", "3:1: source: duplicate key"),
        ("[[rule]]\nsorce = \"10.0.0.1\"\npolicy = \"deny\"", "1:1: [[rule]]: source is missing"),
        (
            "[service.udp]\ncost = 3\n[service.\"17\"]\ncost = 4",
            "1:10: udp: the same service as 17: put everything into one table",
        ),
    ] {
        assert_eq!(problems(text), [expected], "{text}");
    }
}

#[test]
fn lists_of_sources_are_rules_for_each() {
    let config = parse(
        "allow = [\"10.0.0.1\", \"2001:db8::/32\"]\n[[rule]]\nsources = [\"10.0.0.2\", \"10.1.0.0/16\"]\nservice = \"udp/53\"\npackets = \"5/s\"\n",
    )
    .unwrap();
    let rules: Vec<_> = config.rules.iter().map(|rule| (rule.target.to_string(), rule.spec.policy.kind)).collect();
    let expected =
        [("10.0.0.1", ALLOW), ("2001:db8::/32", ALLOW), ("10.0.0.2 udp/53", LIMIT), ("10.1.0.0/16 udp/53", LIMIT)];
    assert_eq!(rules, expected.map(|(target, kind)| (target.to_owned(), kind)));
}
