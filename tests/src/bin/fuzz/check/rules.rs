//! Files with rules.

use anyhow::{Result, ensure};
use ratelimit_server::config::{self as requests, written};
use ratelimit_tests::generate::random::Random;

use super::{
    mutate::mutated,
    target::{Target, lines},
};

pub(super) struct Files(Vec<Vec<u8>>);

impl Files {
    pub(super) fn new() -> Self {
        let text = include_str!("../../../../data/requests/file.toml");
        let mut corpus = vec![text.as_bytes().to_vec(); 4];
        let sections = text.split("\n\n").collect::<Vec<_>>();
        corpus.extend(sections.iter().map(|section| section.as_bytes().to_vec()));
        corpus.extend(lines(text));
        Self(corpus)
    }
}

impl Target for Files {
    fn next(&mut self, random: &mut Random) -> Result<&'static str> {
        let bytes = mutated(&self.0, random);
        let text = String::from_utf8_lossy(&bytes);
        match requests::parse(&text) {
            Ok(requests) => {
                ensure!(requests.rules.len() == requests.keys.len(), "{} rules of {text}", requests.rules.len());
                // A rule that is written and read again is accepted again, unless only this file may have it.
                for (name, keys) in requests.keys.iter().filter(|(_, keys)| !keys.contains_key("stop-at-nic")) {
                    let again = written::read(name, keys, &requests.attributes);
                    ensure!(again.is_ok(), "{name}: {:?}, in {text}", again.err());
                }
                Ok("accepted")
            }
            Err(problems) => {
                ensure!(!problems.is_empty(), "no problem in {text}");
                for problem in &problems {
                    let line = problem.to_string();
                    ensure!(line.chars().count() <= 1_000, "a problem of {} bytes in {text}", line.len());
                    ensure!(!line.chars().any(char::is_control), "a problem of several lines: {line:?} in {text}");
                }
                Ok("refused")
            }
        }
    }
}
