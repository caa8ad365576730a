//! Commands in code blocks, taken apart as a shell would.
//!
//! A `console` block shows a terminal, and tests run its commands. An `sh` block has commands for the machine of the
//! reader.

use super::page::{Block, Page};

/// Language of code blocks that show a terminal: commands behind a prompt, and output.
const CONSOLE: &str = "console";
/// Language of code blocks every line of which is a command.
const SCRIPT: &str = "sh";
/// Prompts of root and of other users.
const PROMPTS: [&str; 2] = ["# ", "$ "];
/// What separates the commands of a line.
const SEPARATORS: [&str; 4] = ["&&", "||", ";", "|"];

/// A line with commands, and the lines that continue it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The line of the page, counted from 1.
    pub line: usize,
    /// The text as a shell reads it.
    pub text: String,
    /// Whether it stands behind a prompt, in a `console` block.
    pub has_prompt: bool,
}

impl Line {
    /// The words of each command of the line, without what is redirected.
    #[must_use]
    pub fn commands(&self) -> Vec<Vec<String>> {
        let mut commands = vec![Vec::new()];
        let mut words = words(&self.text).into_iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                separator if SEPARATORS.contains(&separator) => commands.push(Vec::new()),
                "<" | ">" | ">>" | "2>" => drop(words.next()),
                redirection if ["<", ">", "2>"].iter().any(|begin| redirection.starts_with(begin)) => {}
                _ => {
                    if let Some(command) = commands.last_mut() {
                        command.push(word);
                    }
                }
            }
        }
        commands.retain(|command| !command.is_empty());
        commands
    }
}

/// All lines with commands of the page.
#[must_use]
pub fn lines(page: &Page) -> Vec<Line> {
    page.blocks.iter().flat_map(lines_of).collect()
}

/// Whether the block shows a terminal.
pub(super) fn is_console(block: &Block) -> bool {
    block.language == CONSOLE
}

/// The lines with commands of one block.
pub(super) fn lines_of(block: &Block) -> Vec<Line> {
    let has_prompt = is_console(block);
    if !has_prompt && block.language != SCRIPT {
        return Vec::new();
    }
    let mut found: Vec<Line> = Vec::new();
    let mut goes_on = false;
    for (line, text) in (block.line..).zip(block.code.lines()) {
        let command = if has_prompt {
            PROMPTS.iter().find_map(|prompt| text.strip_prefix(prompt))
        } else {
            Some(text).filter(|text| !text.is_empty())
        };
        match (found.last_mut(), command) {
            (Some(before), _) if goes_on => before.text += text.trim(),
            (_, Some(command)) => found.push(Line { line, text: command.to_owned(), has_prompt }),
            _ => continue,
        }
        if let Some(last) = found.last_mut() {
            goes_on = last.text.ends_with('\\');
            last.text.truncate(last.text.len() - usize::from(goes_on));
        }
    }
    found
}

/// The words of a line: quotes are taken away, and a comment ends it.
fn words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in text.chars() {
        match quote {
            Some(mark) if letter == mark => quote = None,
            Some(_) => word.get_or_insert_default().push(letter),
            None if letter == '#' && word.is_none() => break,
            None if matches!(letter, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            None if letter.is_whitespace() => words.extend(word.take()),
            None if letter == ';' => {
                words.extend(word.take());
                words.push(letter.to_string());
            }
            None => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}
