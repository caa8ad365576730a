//! The rule for commands: the project accepts every command that a page shows.

use crate::finding::Finding;

use super::{console, page::Page};

/// Parses the words behind a program's name. The error says in one line why it refuses them.
pub type Accepts<'a> = &'a dyn Fn(&[String]) -> Result<(), String>;

/// Finds the commands of `program` that `accepts` refuses. `program` can be several words, such as `cargo xtask`.
#[must_use]
pub fn check(page: &Page, program: &str, accepts: Accepts<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for line in console::lines(page) {
        for command in line.commands() {
            if let Some(words) = behind(&command, program)
                && let Err(error) = accepts(words)
            {
                let problem = format!("`{}` is refused: {error}", command.join(" "));
                findings.push(Finding { file: page.name.clone(), line: line.line, problem });
            }
        }
    }
    findings
}

/// Finds the `console` blocks that show no prompt, so that nothing in them would be checked.
pub(super) fn check_prompts(page: &Page) -> Vec<Finding> {
    let silent = page.blocks.iter().filter(|block| console::is_console(block) && console::lines_of(block).is_empty());
    let problem = "no line of this console block begins with a prompt, `# ` or `$ `";
    silent.map(|block| Finding { file: page.name.clone(), line: block.line, problem: problem.to_owned() }).collect()
}

/// The words behind the program's name, if the command runs that program.
#[must_use]
pub fn behind<'a>(command: &'a [String], program: &str) -> Option<&'a [String]> {
    let is_setting = |word: &&String| word.as_str() == "sudo" || word.contains('=');
    let command = &command[command.iter().take_while(is_setting).count()..];
    let name: Vec<_> = program.split(' ').collect();
    let (first, rest) = command.split_at_checked(name.len())?;
    (first == name).then_some(rest)
}
