//! What teams take of the memory, the rules and the log, and what they leave to others.

use ratelimit_limiter::Limiter;

use super::*;

const SECOND: u64 = 1_000_000_000;

/// Three teams, of which the last one has two tokens.
fn operators(more: &str) -> Arc<Operators> {
    let token = |number: usize, scopes: &str| {
        format!("[[token]]\nname = \"t{number}\"\nsha256 = \"{number:064x}\"\nscope = [{scopes}]\n")
    };
    let teams = ["\"rules:a-*\"", "\"rules:b-*\", \"rules:shared\"", "\"rules:*\"", "\"rules:*\""];
    let tokens: String = (1..).zip(teams).map(|(number, scopes)| token(number, scopes)).collect();
    Arc::new(Operators::of(requests::parse(&format!("{tokens}{more}")).unwrap()))
}

fn empty(more: &str) -> InForce {
    InForce::at_start(operators(more), Contents::default()).unwrap()
}

fn by_user(limit: &str, algorithm: &str) -> Keys {
    let keys = [("key", "user"), ("algorithm", algorithm)].map(|(key, value)| (key.to_owned(), value.into()));
    self::keys(limit).into_iter().chain(keys).collect()
}

/// Writes rules whose names have this beginning until one is refused. Returns how many there are, and why.
fn fill(mut rules: InForce, beginning: &str, keys: &Keys) -> (InForce, usize, String) {
    for number in 0.. {
        match rules.with(&format!("{beginning}{number}"), rules.version() + 1, Some(keys)) {
            Ok(next) => rules = next,
            Err(problem) => return (rules, number, problem),
        }
    }
    unreachable!()
}

#[test]
fn a_team_with_all_rules_that_it_may_have_forgets_no_client_of_another_team() {
    const CLIENTS: usize = 20_000;
    let rules = empty("").with("b-1", 1, Some(&by_user("1/d", "token-bucket"))).unwrap();
    let limiter = Limiter::new(rules.rules(), [1, 2]);
    let admitted = |limiter: &Limiter, now: u64| {
        let asks = (0..CLIENTS).map(|user| limiter.check(&[("user", user.to_string())], 1, now).is_allowed);
        asks.filter(|is_allowed| *is_allowed).count()
    };
    assert_eq!((admitted(&limiter, SECOND), admitted(&limiter, 2 * SECOND)), (CLIENTS, 0));
    let (rules, count, _) = fill(rules, "a-", &by_user("1000000/s", "token-bucket"));
    assert_eq!(count, 333);
    let limiter = limiter.with_rules(rules.rules(), 3 * SECOND);
    // The other rules would only make this slow.
    let own = rules.rules().into_iter().filter(|rule| rule.name() == "b-1");
    assert_eq!(admitted(&limiter.with_rules(own, 3 * SECOND), 3 * SECOND), 0);
}

#[test]
fn each_team_has_its_part_of_the_rules_and_the_operator_all_of_its_own() {
    let (rules, count, problem) = fill(empty(""), "a-", &keys("1/s"));
    assert_eq!((count, &*problem), (333, "at most 333 rules of this scope are possible: delete one first"));
    // A change of a rule, and rules of others, are no further ones.
    let rules = rules.with("a-1", 1_000, Some(&keys("2/s"))).unwrap();
    let (rules, of_b, _) = fill(rules, "b-", &keys("1/s"));
    let (rules, of_others, _) = fill(rules, "c-", &keys("1/s"));
    assert_eq!((of_b, of_others), (333, 333));
    let contents = Contents { version: 1_000, fleet: None, rules: rules.stored_rules() };
    let rule = |number: usize| format!("[[check]]\nname = \"own-{number}\"\nlimits = \"1/s\"\n");
    let of_operator: String = (0..1_000).map(rule).collect();
    let all = InForce::at_start(operators(&of_operator), contents).unwrap();
    assert_eq!(all.rules().len(), 1_999);
    // A rule less makes room for one.
    let less = rules.with("a-1", 1_001, None).unwrap();
    assert!(less.with("a-new", 1_002, Some(&keys("1/s"))).is_ok());
}

#[test]
fn rules_of_nobody_neither_take_from_teams_nor_resize_their_tables() {
    let token = |number: usize, scope: &str| {
        format!("[[token]]\nname = \"t{number}\"\nsha256 = \"{number:064x}\"\nscope = [\"rules:{scope}-*\"]\n")
    };
    let operators = Arc::new(Operators::of(requests::parse(&(token(1, "a") + &token(2, "b"))).unwrap()));
    let of = |names: &[&str]| {
        let stored = |name: &&str| ((*name).to_owned(), Stored { version: 1, keys: by_user("1/d", "token-bucket") });
        let contents = Contents { version: 1, fleet: None, rules: names.iter().map(stored).collect() };
        InForce::at_start(Arc::clone(&operators), contents).unwrap()
    };
    let clients = |all: &InForce| all.rules().iter().find(|rule| rule.name() == "a-1").unwrap().clients();
    // A rule alone has as many clients as a rule can have.
    let own = ["a-1", "a-2", "a-3", "a-4", "revoked-1"];
    let (with_other, without) = (of(&own), of(&own[..4]));
    assert_eq!(clients(&with_other), clients(&without));
    assert_eq!(clients(&with_other.with("revoked-1", 2, None).unwrap()), clients(&without));
    let (_, count, problem) = fill(without, "a-x", &keys("1/s"));
    assert_eq!((count, &*problem), (329, "at most 333 rules of this scope are possible: delete one first"));
}

#[test]
fn rules_that_are_left_out_take_the_place_of_a_rule() {
    let folder = Folder::new();
    let text = |name: &str, number: usize, limit: &str| {
        format!("[[check]]\nversion = {number}\nname = \"{name}{number}\"\nlimits = \"{limit}\"\n")
    };
    let good: String = (1..=600).map(|number| text("a-", number, "1/s")).collect();
    let bad: String = (601..=1_000).map(|number| text("a-", number, "often")).collect();
    fs::write(folder.rules(), format!("version = 1000\n{good}{bad}")).unwrap();
    let (book, _) = open(&folder.rules()).unwrap();
    let error = write(&book, "more", None, "1/s").unwrap_err().to_string();
    assert_eq!(error, "at most 1000 rules of this scope are possible: delete one first");
    // A rule that is left out can be written again, since there is no further one.
    write(&book, "a-700", Some(700), "1/s").unwrap();
    change(&book, "a-601", Some(601), None).unwrap();
    write(&book, "more", None, "1/s").unwrap();
    drop(book);
    let (book, _) = open(&folder.rules()).unwrap();
    assert_eq!(book.in_force().count().in_words(""), "1 rule of the file and 602 of callers");
}

#[test]
fn a_file_with_too_many_rules_keeps_the_oldest_in_force_and_one_can_be_deleted() {
    let folder = Folder::new();
    let text = |number: usize| format!("[[check]]\nversion = {number}\nname = \"a-{number}\"\nlimits = \"1/s\"\n");
    let all: String = (1..=1_002).map(text).collect();
    fs::write(folder.rules(), format!("version = 1002\n{all}")).unwrap();
    let (book, names) = open(&folder.rules()).unwrap();
    let left_out: Vec<_> = book.in_force().left_out().map(|(name, _)| name.to_owned()).collect();
    assert_eq!(left_out, ["a-1001", "a-1002"]);
    let error = write(&book, "a-1001", Some(1_001), "2/s").unwrap_err().to_string();
    assert!(error.starts_with("at most 1000 rules of all scopes together are possible: "), "{error}");
    write(&book, "a-7", Some(7), "2/s").unwrap();
    for number in [1_002, 8, 9] {
        change(&book, &format!("a-{number}"), Some(number), None).unwrap();
    }
    assert_eq!(names.lock().unwrap().len(), 1_000);
    assert_eq!(write(&book, "b", None, "1/s").unwrap(), 1_007);
    drop(book);
    assert_eq!(open(&folder.rules()).unwrap().0.in_force().left_out().len(), 0);
}

#[test]
fn a_team_without_rules_learns_that_others_have_all() {
    // Another one has filled its part before the operator has added a token.
    let token = |number: usize, scope: &str| {
        format!("[[token]]\nname = \"t{number}\"\nsha256 = \"{number:064x}\"\nscope = [\"rules:{scope}*\"]\n")
    };
    let operators = Arc::new(Operators::of(requests::parse(&(token(1, "") + &token(2, "b-"))).unwrap()));
    let stored = |number: usize| (format!("a-{number}"), Stored { version: 1, keys: keys("1/s") });
    let contents = Contents { version: 1, fleet: None, rules: (0..1_000).map(stored).collect() };
    let rules = InForce::at_start(operators, contents).unwrap();
    let problem = rules.with("b-1", 2, Some(&keys("1/s"))).unwrap_err();
    assert_eq!(
        problem,
        "at most 1000 rules of all scopes together are possible: one of this scope or of another one must be deleted first"
    );
    let problem = rules.with("a-more", 2, Some(&keys("1/s"))).unwrap_err();
    assert_eq!(problem, "at most 500 rules of this scope are possible: delete one first");
}

#[test]
fn logs_of_callers_take_no_more_memory_than_callers_have() {
    let log = by_user("2000/d", "sliding-log");
    let (rules, of_a, problem) = fill(empty(""), "a-", &log);
    assert!(problem.starts_with("limits: all rules of this scope may take 85 MiB, and each has 64"), "{problem}");
    let (rules, of_b, _) = fill(rules, "b-", &log);
    let (rules, of_others, _) = fill(rules, "c-", &log);
    assert_eq!((of_b, of_others), (of_a, of_a));
    let bytes = |rule: &Rule| rule.clients() * (rule.least_memory() / 64);
    let all: usize = rules.rules().iter().map(bytes).sum();
    assert!(of_a > 10 && all <= MEMORY, "{of_a} rules of each, {all} bytes");
    // A rule with a number of clients is of the other half.
    let with_clients = |count: i64| {
        let clients = ("clients".to_owned(), count.into());
        keys("1/s").into_iter().chain([clients]).collect::<Keys>()
    };
    let rules = rules.with("a-many", 1_000, Some(&with_clients(1 << 20))).unwrap();
    let problem = rules.with("a-more", 1_001, Some(&with_clients(1 << 20))).unwrap_err();
    assert_eq!(problem, "clients: all rules of this scope with this key may take 85 MiB: give fewer clients");
    assert!(rules.with("b-many", 1_001, Some(&with_clients(1 << 20))).is_ok());
}

#[test]
fn a_team_with_many_changes_makes_no_other_forget_its_own() {
    const MOST: u64 = 200_000;
    let folder = Folder::new();
    let rules = empty("");
    let mut audit = audit::Audit::open(&folder.rules(), Some(0));
    audit.limit(MOST);
    let keys = keys("1/s");
    let mut add = |name: &str, version: u64| {
        audit.add(&update(name, version, &keys), rules.teams()).unwrap();
    };
    (1..=10).for_each(|version| add("b-1", version));
    (11..=3_010).for_each(|version| add("a-1", version));
    add("b-1", 3_011);
    let last = |wanted: &str| -> Vec<u64> {
        let log = audit::last(audit.files().unwrap(), 10_000, &|name| name == wanted).unwrap();
        log.iter().map(|entry| entry["version"].as_u64().unwrap()).collect()
    };
    assert_eq!(last("b-1"), [3_011].into_iter().chain((1..=10).rev()).collect::<Vec<_>>());
    let of_a = last("a-1");
    assert!(of_a.len() < 3_000 && of_a.is_sorted_by(|new, old| *new == old + 1), "{}", of_a.len());
    let size = |path: &Path| fs::metadata(path).unwrap().len();
    assert!(size(&folder.log()) <= MOST && size(&folder.0.join("rules.toml.log.1")) <= MOST);
}
