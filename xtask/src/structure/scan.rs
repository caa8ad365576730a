//! Collects the paths of a file from its words. It needs to understand no more of the language.

use std::{collections::BTreeMap, str::FromStr as _};

use anyhow::{Result, anyhow};
use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A path of the code, with its line.
pub(super) struct Used {
    pub(super) segments: Vec<String>,
    pub(super) line: usize,
}

/// The paths of a file.
#[derive(Default)]
pub(super) struct Scanned {
    /// Paths of two segments and more, without those of `pub use`.
    pub(super) used: Vec<Used>,
    /// The names that `use` gives, with their paths.
    pub(super) imports: BTreeMap<String, Vec<String>>,
}

/// Returns the paths of a file, without those that only tests have.
pub(super) fn file(text: &str) -> Result<Scanned> {
    let mut scanned = Scanned::default();
    scanned.code(TokenStream::from_str(text).map_err(|error| anyhow!("{error}"))?);
    Ok(scanned)
}

impl Scanned {
    fn code(&mut self, tokens: TokenStream) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            let end = |is_end: fn(&TokenTree) -> bool| tokens[at..].iter().position(is_end).unwrap_or_default();
            match token {
                // The item of a test ends with its braces or a semicolon.
                TokenTree::Group(group) if at > 0 && is(&tokens[at - 1], '#') && is_for_tests(group.stream()) => {
                    at += end(|token| is(token, ';') || braces(token).is_some());
                }
                TokenTree::Group(group) => self.code(group.stream()),
                TokenTree::Ident(word) if word == "use" => {
                    let mut before = tokens[..at].iter().rev().filter(|token| !matches!(token, TokenTree::Group(_)));
                    let is_public = before.next().is_some_and(|token| token.to_string() == "pub");
                    let length = end(|token| is(token, ';'));
                    self.imports(tokens.get(at + 1..at + length).unwrap_or_default(), &[], is_public);
                    at += length;
                }
                TokenTree::Ident(_) => {
                    let segments = path(&tokens[at..]);
                    at += 3 * (segments.len() - 1);
                    if segments.len() > 1 {
                        self.used.push(Used { segments, line: token.span().start().line });
                    }
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
            at += 1;
        }
    }

    /// Adds the names of a `use`, each with the path before it.
    fn imports(&mut self, tokens: &[TokenTree], before: &[String], is_public: bool) {
        for tree in tokens.split(|token| is(token, ',')) {
            let mut segments = [before, &path(tree)].concat();
            let Some(last) = tree.last() else { continue };
            if let Some(inner) = braces(last) {
                self.imports(&inner.into_iter().collect::<Vec<_>>(), &segments, is_public);
            } else if let TokenTree::Ident(name) = last {
                segments.pop_if(|last| last == "self" && !before.is_empty());
                let name = if name == "self" { segments.last().cloned() } else { Some(name.to_string()) };
                self.imports.insert(name.unwrap_or_default(), segments.clone());
                if !is_public {
                    self.used.push(Used { segments, line: last.span().start().line });
                }
            }
        }
    }
}

/// Returns the segments of the path at the beginning: `a::b::c`.
fn path(mut tokens: &[TokenTree]) -> Vec<String> {
    let mut segments = Vec::new();
    while let [TokenTree::Ident(word), rest @ ..] = tokens {
        segments.push(word.to_string().trim_start_matches("r#").to_owned());
        let [first, second, more @ ..] = rest else { break };
        tokens = if is(first, ':') && is(second, ':') { more } else { break };
    }
    segments
}

/// Whether an attribute is `test`, `cfg(test)` or `cfg(all(test, …))`.
fn is_for_tests(attribute: TokenStream) -> bool {
    let text = attribute.to_string().replace(' ', "");
    ["test", "cfg(test)"].contains(&&*text) || text.starts_with("cfg(all(test,")
}

fn is(token: &TokenTree, mark: char) -> bool {
    matches!(token, TokenTree::Punct(found) if found.as_char() == mark)
}

fn braces(token: &TokenTree) -> Option<TokenStream> {
    match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Some(group.stream()),
        _ => None,
    }
}
