//! Services and rules.

use super::problems;

#[test]
fn every_problem_with_a_service_or_a_rule_is_named() {
    for (text, expected) in [
        ("service = 3", "1:11: 3: expected a table"),
        ("[service]\n\"udp/53\" = 3", "2:12: 3: expected a table"),
        (
            "[service.\"udp/x\"]\ncost = 3",
            "1:10: \"udp/x\": expected one port, from 0 to 65535, after the slash; each port has a rule of its own",
        ),
        ("[service.\"icmp/3\"]\ncost = 3", "1:10: \"icmp/3\": only tcp, udp and sctp have ports: leave the slash away"),
        ("[service.44]\ncost = 3", "1:10: 44: 44 is no service but an IPv6 extension header, which is looked through"),
        ("[service.icmpv6]\ncost = 3", "1:10: icmpv6: icmp stands for both families: say icmp"),
        ("[service.udp]\ncost = 0", "2:8: 0: expected a number from 1 to 50"),
        ("[service.udp]\ncost = \"three\"", "2:8: \"three\": expected a number from 1 to 50"),
        ("[service.udp]\ncost = {}", "2:8: {}: expected text in quotes, a number, or true or false"),
        ("[service.udp]\ncosts = 3", "2:1: costs: no such key here: cost is meant?"),
        (
            "[service.udp]\ncost = 3\npolicy = \"deny\"",
            "3:10: \"deny\": a default is a limit: give 0.0.0.0/0 and ::/0 a rule",
        ),
        (
            "[service.udp]\ncost = 3\n[service.\"17\"]\npackets = \"1/s\"",
            "1:10: udp: the same service as 17: say all in one table",
        ),
        ("[rule]\nsource = \"10.0.0.1\"", "1:1: [rule]: expected tables with double brackets"),
        ("rule = 3", "1:8: 3: expected tables with double brackets"),
        ("rule = [3]", "1:9: 3: expected a table"),
        ("[[rule]]\nsource = 3\npolicy = \"deny\"", "2:10: 3: expected text in quotes"),
        (
            "[[rule]]\nsource = \"10.0.0.1/8\"\npolicy = \"deny\"",
            "2:10: \"10.0.0.1/8\": the address has bits set beyond the prefix: say 10.0.0.0/8 or 10.0.0.1",
        ),
        (
            "[[rule]]\nsource = \"10.0.0.0/33\"\npolicy = \"deny\"",
            "2:10: \"10.0.0.0/33\": expected at most 32 bits after the slash",
        ),
        (
            "[[rule]]\nsource = \"::ffff:10.0.0.1\"\npolicy = \"deny\"",
            "2:10: \"::ffff:10.0.0.1\": packets from there carry the IPv4 address: say 10.0.0.1",
        ),
        ("[[rule]]\nsource = \"10.0.0.1\"\nservice = 53\npolicy = \"deny\"", "3:11: 53: expected text in quotes"),
        (
            "[[rule]]\nsource = \"10.0.0.1\"\nservice = \"dns\"\npolicy = \"deny\"",
            "3:11: \"dns\": expected tcp, udp or sctp with or without a port (udp/53), tcp-syn, icmp, gre, esp, ah, ipip, or a protocol's number",
        ),
        ("[[rule]]\nsource = \"10.0.0.1\"\ncomment = 3\npolicy = \"deny\"", "3:11: 3: expected text in quotes"),
        (
            "[[rule]]\nsource = \"10.0.0.1\"\nuntil = 07:32:00\npolicy = \"deny\"",
            "3:9: 07:32:00: expected a date, a time and its zone, such as 2030-01-31T12:00:00Z",
        ),
        (
            "[[rule]]\nsource = \"default\"\nuntil = 2030-01-01T00:00:00Z\npackets = \"1/s\"",
            "1:1: [[rule]]: a default cannot end by itself: leave until away, or limit 0.0.0.0/0 and ::/0",
        ),
        (
            "[[rule]]\nsource = \"default\"\npolicy = \"allow\"",
            "3:10: \"allow\": a default is a limit: give 0.0.0.0/0 and ::/0 a rule",
        ),
        (
            "[[rule]]\nsource = \"10.0.0.1\"\npolicy = \"limit\"",
            "3:10: \"limit\": no such policy: expected allow, deny",
        ),
        ("[[rule]]\nsource = \"10.0.0.1\"\nsource = \"10.0.0.2\"\npolicy = \"deny\"", "3:1: source: duplicate key"),
        ("[[rule]]\nsorce = \"10.0.0.1\"\npolicy = \"deny\"", "1:1: [[rule]]: source is missing"),
        (
            "[service.udp]\ncost = 3\n[service.\"17\"]\ncost = 4",
            "1:10: udp: the same service as 17: say all in one table",
        ),
    ] {
        assert_eq!(problems(text), [expected], "{text}");
    }
}
