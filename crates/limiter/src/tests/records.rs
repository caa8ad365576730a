//! Which rules tell that they have counted a request.

use super::*;

const NOW: u64 = 1_000 * HOUR;

/// What a limiter has told: rule, client, and cost. No cost is a refusal.
#[derive(Debug, Default)]
struct Told(Vec<(String, String, Option<u32>)>);

impl Told {
    fn add(&mut self, counted: &Counted<'_>, cost: Option<u32>) {
        let client: Vec<_> = counted.client().map(|(name, value)| format!("{name}={value}")).collect();
        self.0.push((counted.rule().name().to_owned(), client.join(" "), cost));
    }

    fn take(&mut self) -> Vec<(String, String, Option<u32>)> {
        std::mem::take(&mut self.0)
    }
}

impl Record for Told {
    fn admitted(&mut self, counted: &Counted<'_>, cost: u32) {
        self.add(counted, Some(cost));
    }

    fn refused(&mut self, counted: &Counted<'_>, _: Refusal) {
        self.add(counted, None);
    }
}

fn rule(name: &str, amount: u64, by: &[&str]) -> Rule {
    Rule::new(name, [limit(amount, HOUR, Algorithm::FixedWindow)]).unwrap().by(by.iter().copied())
}

fn told(rule: &str, client: &str, cost: Option<u32>) -> (String, String, Option<u32>) {
    (rule.to_owned(), client.to_owned(), cost)
}

#[test]
fn each_rule_that_charges_an_allowed_request_is_told_and_each_that_refuses() {
    let shadow = rule("shadow", 2, &["user", "ip"]).in_shadow(true);
    let limiter = Limiter::new([rule("user", 3, &["user"]), shadow, rule("key", 100, &["key"])], [1, 2]);
    let mut record = Told::default();
    let mut ask = |cost| {
        let request = [("user", "17"), ("ip", "2001:db8::1")];
        let is_allowed = limiter.check_and_record(&request, cost, NOW, &mut record).is_allowed;
        (is_allowed, record.take())
    };
    let (user, both) = ("user=17", "user=17 ip=2001:db8::/64");
    assert_eq!(ask(2), (true, vec![told("user", user, Some(2)), told("shadow", both, Some(2))]));
    assert_eq!(ask(1), (true, vec![told("shadow", both, None), told("user", user, Some(1))]));
    assert_eq!(ask(1), (false, vec![told("user", user, None), told("shadow", both, None)]));
    assert_eq!(ask(0), (false, vec![]), "a request that costs nothing is not counted");
}

#[test]
fn a_rule_that_admits_what_another_refuses_is_not_told() {
    let limiter = Limiter::new([rule("wide", 100, &[]), rule("narrow", 1, &["user"])], [1, 2]);
    let mut record = Told::default();
    let mut ask = || {
        limiter.check_and_record(&[("user", "17")], 1, NOW, &mut record);
        record.take()
    };
    assert_eq!(ask(), [told("wide", "", Some(1)), told("narrow", "user=17", Some(1))]);
    assert_eq!(ask(), [told("narrow", "user=17", None)]);
}

#[test]
fn a_refused_batch_tells_only_the_refusal() {
    let limiter = Limiter::new([rule("user", 3, &["user"])], [1, 2]);
    let mut record = Told::default();
    let mut batch = |users: &[&str]| {
        let requests: Vec<_> = users.iter().map(|user| ([("user", *user)], 2)).collect();
        limiter.check_all_and_record(&requests, NOW, &mut record);
        record.take()
    };
    assert_eq!(batch(&["1", "2", "1"]), [told("user", "user=1", None)]);
    assert_eq!(batch(&["1", "2"]), [told("user", "user=1", Some(2)), told("user", "user=2", Some(2))]);
}

#[test]
fn requests_above_a_soft_limit_count_too() {
    let rule = rule("soft", 10, &["user"]).with_throttle(Throttle::Soft(10)).unwrap();
    let limiter = Limiter::new([rule], [1, 2]);
    let mut record = Told::default();
    for _ in 0..12 {
        limiter.check_and_record(&[("user", "17")], 1, NOW, &mut record);
    }
    assert_eq!(record.0.iter().filter(|(_, _, cost)| *cost == Some(1)).count(), 11);
    assert_eq!(record.0.iter().filter(|(_, _, cost)| cost.is_none()).count(), 1);
}

#[test]
fn a_rule_with_another_key_has_another_number_for_the_same_values() {
    #[derive(Default)]
    struct Numbers(std::collections::HashSet<(u64, u128)>);
    impl Record for Numbers {
        fn admitted(&mut self, counted: &Counted<'_>, _: u32) {
            self.0.insert(counted.id());
        }

        fn refused(&mut self, _: &Counted<'_>, _: Refusal) {}
    }
    let mut numbers = Numbers::default();
    let limiter = Limiter::new([rule("one", 10, &["user"])], [1, 2]);
    let changed = limiter.with_rules([rule("one", 10, &["key"])], NOW);
    let same = limiter.with_rules([rule("one", 11, &["user"])], NOW);
    for limiter in [&limiter, &changed, &same] {
        limiter.check_and_record(&[("user", "17"), ("key", "17")], 1, NOW, &mut numbers);
    }
    assert_eq!(numbers.0.len(), 2);
}

#[test]
fn a_tally_tells_which_limit_has_refused_and_why() {
    struct Tallies;
    impl Record for Tallies {
        fn admitted(&mut self, counted: &Counted<'_>, _: u32) {
            counted.tally().admit();
        }

        fn refused(&mut self, counted: &Counted<'_>, refusal: Refusal) {
            counted.tally().refuse(false, refusal);
        }
    }
    let limits = |most| [limit(3, MINUTE, Algorithm::FixedWindow), limit(most, HOUR, Algorithm::FixedWindow)];
    let rule = |most| Rule::new("user", limits(most)).unwrap().by(["user"]);
    let limiter = Limiter::new([rule(4)], [1, 2]);
    let ask =
        |limiter: &Limiter, cost, now| limiter.check_and_record(&[("user", "17")], cost, now, &mut Tallies).is_allowed;
    let told = |limiter: &Limiter| {
        let (.., tally) = limiter.rules().next().unwrap();
        (tally.counts(), tally.refusals().take(2).collect::<Vec<_>>())
    };
    assert!((0..3).all(|_| ask(&limiter, 1, NOW)) && !ask(&limiter, 1, NOW));
    assert!(ask(&limiter, 1, NOW + MINUTE) && !ask(&limiter, 1, NOW + MINUTE) && !ask(&limiter, 4, NOW + MINUTE));
    assert_eq!(told(&limiter), ([4, 3, 0], vec![[1, 0, 1], [1, 0, 0]]));
    let same = limiter.with_rules([rule(4)], NOW);
    assert_eq!(told(&same), ([4, 3, 0], vec![[1, 0, 1], [1, 0, 0]]));
    // Refusals of another limit would be those of this one.
    let other = limiter.with_rules([rule(5)], NOW);
    assert!(ask(&other, 1, NOW + MINUTE));
    assert_eq!((told(&other), told(&limiter).0), (([5, 3, 0], vec![[0; 3]; 2]), [5, 3, 0]));
}
