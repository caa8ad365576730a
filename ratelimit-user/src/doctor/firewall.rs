//! Rate limits of nftables and iptables, which apply after those of ratelimit.

use std::{fs, process::Command};

use serde_json::Value;

use super::finding::{Check, Finding};

/// Files that list the tables of legacy iptables in this network namespace, with the programs.
const LEGACY: [(&str, &str); 2] =
    [("/proc/self/net/ip_tables_names", "iptables-legacy"), ("/proc/self/net/ip6_tables_names", "ip6tables-legacy")];

/// Hooks for packets that leave the host.
const LEAVING: [&str; 3] = ["output", "postrouting", "egress"];

/// A rule of another tool that limits packets.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Limiting {
    /// The place of the rule.
    place: String,
    /// Whether it applies to all packets, as limits of ratelimit do.
    is_wide: bool,
    fix: Option<String>,
}

pub(super) fn examine() -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut rules = Vec::new();
    match nftables() {
        Ok(found) => rules.extend(found),
        Err(reason) => findings.push(unreadable("nftables", &reason)),
    }
    for (names, program) in LEGACY {
        // The file is read first, because the program would load kernel modules.
        if fs::read_to_string(names).is_ok_and(|tables| !tables.trim().is_empty()) {
            match output(&format!("{program}-save"), &[]) {
                Ok(text) => rules.extend(legacy(program, &text)),
                Err(reason) => findings.push(unreadable("iptables", &reason)),
            }
        }
    }
    if rules.is_empty() && findings.is_empty() {
        return vec![Finding::ok(Check::Firewall, "no rule limits received packets")];
    }
    findings.extend(self::findings(&rules));
    findings
}

fn unreadable(of: &str, reason: &str) -> Finding {
    let what = format!("rules of {of} cannot be read: {reason}");
    Finding::note(Check::Firewall, &what, "If they limit packets too, the lower limit applies.")
}

fn findings(rules: &[Limiting]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for rule in rules.iter().filter(|rule| rule.is_wide) {
        let what = format!("all packets are limited by {}", rule.place);
        let why = "Packets that ratelimit passes are limited again. The lower limit applies, and `ratelimit status` does not show its drops.";
        let finding = Finding::warning(Check::Firewall, &what, why);
        findings.push(match &rule.fix {
            Some(command) => finding.fixed_by(command),
            None => finding,
        });
    }
    let narrow: Vec<&str> = rules.iter().filter(|rule| !rule.is_wide).map(|rule| rule.place.as_str()).collect();
    if !narrow.is_empty() {
        let what = format!("some packets are limited by {}", narrow.join("; "));
        findings.push(Finding::note(Check::Firewall, &what, "For these packets the lower limit applies."));
    }
    findings
}

fn nftables() -> Result<Vec<Limiting>, String> {
    let text = output("nft", &["--json", "--terse", "--stateless", "list", "ruleset"])?;
    let all: Value = serde_json::from_str(&text).map_err(|error| format!("cannot read the output of nft: {error}"))?;
    Ok(limiting(&all))
}

/// Returns the output of a command, or why it failed.
fn output(command: &str, words: &[&str]) -> Result<String, String> {
    let output = Command::new(command).args(words).output().map_err(|error| format!("{command}: {error}"))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("{command}: {}", complaint.lines().next().unwrap_or("it failed")));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the rules in `nft --json list ruleset` that limit received packets.
fn limiting(all: &Value) -> Vec<Limiting> {
    let entries = || all["nftables"].as_array().into_iter().flatten();
    let place = |value: &Value, chain: &str| {
        let word = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
        format!("{} {} {}", word("family"), word("table"), word(chain))
    };
    let leaving: Vec<String> = entries()
        .map(|entry| &entry["chain"])
        .filter(|chain| chain["hook"].as_str().is_some_and(|hook| LEAVING.contains(&hook)))
        .map(|chain| place(chain, "name"))
        .collect();
    let rules = entries().map(|entry| &entry["rule"]).filter(|rule| rule.is_object());
    let found = rules.filter_map(|rule| {
        let expressions = rule["expr"].as_array()?;
        let chain = place(rule, "chain");
        let is_wide = is_wide(expressions)?;
        let handle = rule["handle"].as_u64().unwrap_or_default();
        let fix = Some(format!("nft delete rule {chain} handle {handle}"));
        (!leaving.contains(&chain)).then(|| Limiting {
            place: format!("nftables: {chain}, handle {handle}"),
            is_wide,
            fix,
        })
    });
    found.collect()
}

/// Returns whether a limiting rule applies to all packets. Returns None if the rule does not limit, or limits only log
/// messages.
fn is_wide(expressions: &[Value]) -> Option<bool> {
    let has = |keys: &[&str]| expressions.iter().any(|expression| keys.iter().any(|key| !expression[*key].is_null()));
    // The value of a verdict is null.
    let is_verdict = |expression: &Value| {
        let verdicts = ["accept", "drop", "reject", "return", "jump", "goto", "continue"];
        expression.as_object().is_some_and(|object| object.keys().any(|key| verdicts.contains(&key.as_str())))
    };
    let is_xt = |names: &[&str]| {
        expressions.iter().any(|expression| expression["xt"]["name"].as_str().is_some_and(|name| names.contains(&name)))
    };
    let in_set = expressions.iter().any(|expression| {
        let statements = expression["set"]["stmt"].as_array().into_iter().flatten();
        statements.into_iter().any(|statement| statement["limit"].is_object())
    });
    let by_source = in_set || has(&["meter"]) || is_xt(&["hashlimit"]);
    let limits = by_source || has(&["limit"]) || is_xt(&["limit"]);
    let decides = expressions.iter().any(is_verdict) || is_xt(&["REJECT"]);
    (limits && decides).then(|| !has(&["match"]))
}

/// Returns the rules in the output of `program-save` that limit received packets.
fn legacy(program: &str, text: &str) -> Vec<Limiting> {
    let mut table = "filter";
    let mut found = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('*') {
            table = name;
        }
        if let Some(is_wide) = is_wide_line(line) {
            let fix = Some(format!("{program} -t {table} {}", line.replacen("-A", "-D", 1)));
            found.push(Limiting { place: format!("{program}: {table} {line}"), is_wide, fix });
        }
    }
    found
}

/// Returns the same as [`is_wide`] for a line of iptables.
fn is_wide_line(line: &str) -> Option<bool> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let has = |option: &str, value: &str| words.windows(2).any(|pair| pair == [option, value]);
    let limits = line.starts_with("-A ") && (has("-m", "limit") || has("-m", "hashlimit"));
    let logs = has("-j", "LOG") || has("-j", "NFLOG");
    let leaves = has("-A", "OUTPUT") || has("-A", "POSTROUTING");
    let is_narrow = ["-p", "-s", "-d", "-i"].iter().any(|option| words.contains(option));
    (limits && !logs && !leaves).then_some(!is_narrow)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns whether a rule with these expressions is wide, if it limits.
    fn rule(expressions: Value) -> Option<bool> {
        is_wide(expressions.as_array().unwrap())
    }

    #[test]
    fn limiting_rules_of_nftables_are_found() {
        let limit = json!({"limit": {"rate": 10, "burst": 5, "per": "second", "inv": true}});
        let ssh =
            json!({"match": {"op": "==", "left": {"payload": {"protocol": "tcp", "field": "dport"}}, "right": 22}});
        assert_eq!(rule(json!([limit, {"drop": null}])), Some(true));
        assert_eq!(rule(json!([ssh, limit, {"accept": null}])), Some(false));
        assert_eq!(rule(json!([limit, {"log": {"prefix": "x"}}])), None);
        assert_eq!(rule(json!([ssh, {"drop": null}])), None);
        let set = json!({"set": {"op": "update", "elem": "x", "set": "@s", "stmt": [limit]}});
        assert_eq!(rule(json!([set, {"drop": null}])), Some(true));
        assert_eq!(rule(json!([{"meter": {"name": "m", "stmt": limit}}, {"drop": null}])), Some(true));
        assert_eq!(rule(json!([{"xt": {"type": "match", "name": "hashlimit"}}, {"drop": null}])), Some(true));
        assert_eq!(rule(json!([{"xt": null}, {"drop": null}])), None);
    }

    #[test]
    fn rules_for_leaving_packets_are_ignored() {
        let rule = |chain: &str| json!({"rule": {"family": "ip", "table": "t", "chain": chain, "handle": 4, "expr": [{"limit": {}}, {"drop": null}]}});
        let chain = |name: &str| json!({"chain": {"family": "ip", "table": "t", "name": name, "hook": name}});
        let all = json!({"nftables": [chain("input"), chain("output"), rule("input"), rule("output")]});
        let found = limiting(&all);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].place, "nftables: ip t input, handle 4");
        assert_eq!(found[0].fix.as_deref(), Some("nft delete rule ip t input handle 4"));
        assert!(limiting(&json!("something else")).is_empty());
    }

    #[test]
    fn limiting_rules_of_iptables_are_found() {
        let wide =
            "-A PREROUTING -m hashlimit --hashlimit-above 10/sec --hashlimit-mode srcip --hashlimit-name x -j DROP";
        let of_ssh = "-A INPUT -p tcp -m tcp --dport 22 -m limit --limit 3/min -j ACCEPT";
        let others = [
            "-A INPUT -m limit --limit 3/min -j LOG",
            "-A OUTPUT -m limit --limit 3/min -j ACCEPT",
            "-A INPUT -j DROP",
            ":INPUT ACCEPT [0:0]",
        ];
        let text = format!("# Generated\n*mangle\n{wide}\nCOMMIT\n*filter\n{}\n{of_ssh}\nCOMMIT\n", others.join("\n"));
        let found = legacy("iptables-legacy", &text);
        assert_eq!(found.iter().map(|rule| rule.is_wide).collect::<Vec<_>>(), [true, false]);
        assert_eq!(found[0].place, format!("iptables-legacy: mangle {wide}"));
        assert_eq!(found[0].fix, Some(format!("iptables-legacy -t mangle {}", wide.replace("-A", "-D"))));
    }
}
