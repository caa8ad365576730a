//! Lists that lie on servers.

use super::*;

fn of(lines: &str) -> Vec<String> {
    problems(&format!("interfaces = []\n[[list]]\nname = \"drop\"\n{lines}\n"))
}

#[test]
fn a_list_on_a_server_has_bounds_and_a_copy() {
    let text = "interfaces = []\n[[list]]\nname = \"drop\"\nurl = \"https://feeds.example/drop.txt\"\n\
                [[list]]\nname = \"own\"\nurl = \"http://[::1]:8080/own\"\nevery = \"5m\"\nmax-size = \"2MB\"\n\
                max-entries = 10\ncopy = \"/run/own\"\n[[list]]\nname = \"open\"\nurl = \"http://feeds.example\"\nallow-http = true\n";
    let lists = parse(text).unwrap().lists;
    let remote: Vec<_> = lists.iter().map(|list| list.remote.as_ref().unwrap()).collect();
    let bounds = |at: usize| (remote[at].every.as_secs(), remote[at].most, remote[at].entries);
    assert_eq!((bounds(0), bounds(1)), ((3_600, 16_000_000, 200_000), (300, 2_000_000, 10)));
    assert_eq!((remote[0].authorities.is_none(), remote[0].token.is_none()), (true, true));
    let copies: Vec<_> = lists.iter().map(|list| list.file.to_str().unwrap()).collect();
    assert_eq!(copies, ["/var/lib/ratelimit/lists/drop", "/run/own", "/var/lib/ratelimit/lists/open"]);
    assert_eq!(lists[0].content.as_ref().unwrap_err(), "has not been fetched yet");
}

#[test]
fn a_problem_of_a_list_on_a_server_has_its_place() {
    let url = "url = \"https://feeds.example/drop\"\n";
    for (lines, expected) in [
        ("", "2:1: "),
        ("url = \"https://feeds.example/drop\"\nfile = \"/run/feed\"", "4:7: "),
        ("url = \"ftp://feeds.example/drop\"", "expected an address such as https://"),
        ("url = \"https://name:word@feeds.example/\"", "4:7: "),
        ("url = \"http://feeds.example/drop\"", "use https://, or add allow-http = true"),
        ("file = \"/run/feed\"\nevery = \"1h\"", "5:9: "),
        (&format!("{url}every = \"1s\""), "expected a time from 1m to 7d"),
        (&format!("{url}max-size = \"1GB\""), "expected a size from 1MB to 256MB"),
        (&format!("{url}max-entries = 0"), "expected a number from 1 to 1048576"),
        (&format!("{url}ca-file = \"/nonexistent/ca\""), "5:11: "),
        (&format!("{url}token-file = \"/nonexistent/token\""), "5:14: "),
        (&format!("{url}copy = \"drop\""), "expected the absolute path of a file"),
        (&format!("{url}evry = \"1h\""), "did you mean every?"),
        (
            "url = \"http://feeds.example/\"\nallow-http = true\ntoken-file = \"/run/token\"",
            "others could read the token",
        ),
        ("url = \"http://127.0.0.1/\"\nca-file = \"/run/ca\"", "the connection is not encrypted"),
        (&format!("{url}copy = \"/run/c\"\n[[list]]\nname = \"b\"\nfile = \"/run/c\""), "another list has this copy"),
        (
            &format!("{url}copy = \"/run/c\"\n[[list]]\nname = \"b\"\nfile = \"/run/c.new\""),
            "another list has this copy",
        ),
        (&format!("{url}[[list]]\nname = \"drop.json\"\n{url}"), "another list has this copy"),
        (&format!("{url}[[list]]\nname = \"drop.json.new\"\n{url}"), "another list has this copy"),
        (
            &format!("{url}copy = \"/run/c.new\"\n[[list]]\nname = \"b\"\n{url}copy = \"/run/c\""),
            "another list has this copy",
        ),
    ] {
        let problems = of(lines);
        assert!(problems.len() == 1 && problems[0].contains(expected), "{lines}: {problems:?}");
    }
}

#[test]
fn the_list_on_a_server_of_the_sample_file_is_good() {
    let sample = include_str!("../../../../../dist/ratelimit.toml");
    let (_, rest) = sample.split_once("# A list on a server.").unwrap();
    let lines = rest.lines().skip(1).take_while(|line| !line.is_empty()).map(|line| line.trim_start_matches("# "));
    let (named, others): (Vec<_>, Vec<_>) =
        lines.partition(|line| line.starts_with("ca-file") || line.starts_with("token-file"));
    assert_eq!((named.len(), others.len()), (2, 9));
    let list = parse(&others.join("\n")).unwrap().lists.remove(0);
    assert!(!list.may_shrink);
    let remote = list.remote.unwrap();
    assert_eq!((remote.most, remote.entries), (16_000_000, 200_000));
    assert_eq!(list.file.to_str(), Some("/var/lib/ratelimit/lists/spamhaus"));
}
