//! Tests of the rules for documents, each on a page that breaks it.

use std::{fs, path::Path};

use crate::finding::Finding;

use super::{
    commands::{self, behind},
    console, lines, links,
    page::Page,
    sentences,
};

fn text(findings: Vec<Finding>) -> Vec<String> {
    findings.iter().map(ToString::to_string).collect()
}

fn page(text: &str) -> Page {
    Page::parse("docs/page.md", text)
}

#[test]
fn a_line_of_more_than_120_columns_is_found() {
    let (fits, long) = (format!("{}é", "word ".repeat(23) + "four"), "word ".repeat(24) + "é");
    assert_eq!(fits.chars().count(), 120);
    let findings = lines::check(&page(&format!("# Title\n\n{fits}\n{long}\n")));
    assert_eq!(text(findings), ["docs/page.md:4: 121 columns; at most 120 are allowed"]);
}

#[test]
fn tables_code_blocks_and_link_definitions_may_be_wider() {
    let long = "x".repeat(130);
    let wide =
        format!("| a | b |\n|---|---|\n| {long} | c |\n\n```text\n{long}\n```\n\n[name]: https://example.org/{long}\n");
    assert_eq!(text(lines::check(&page(&wide))), [""; 0]);
    assert_eq!(lines::check(&page(&format!("{wide}\n{long}\n"))).len(), 1);
}

#[test]
fn a_sentence_of_more_than_30_words_is_found_with_its_first_words() {
    let words = |count: usize| (0..count).map(|word| format!("Word{word}")).collect::<Vec<_>>().join(" ");
    let markdown = format!("# Title\n\nOne. {}.\n- {}.\n\n| a |\n|---|\n| {} |\n", words(30), words(31), words(32));
    let expected = [
        "docs/page.md:4: 31 words in a sentence; at most 30 are allowed: Word0 Word1 Word2 Word3 Word4 Word5 …",
        "docs/page.md:8: 32 words in a sentence; at most 30 are allowed: Word0 Word1 Word2 Word3 Word4 Word5 …",
    ];
    assert_eq!(text(sentences::check(&page(&markdown))), expected);
}

#[test]
fn sentences_end_at_stops_and_code_is_one_word() {
    let markdown = "One `two three` four. five\n(six, e.g. seven). `eight nine`! \"Ten?\" Eleven 1.5 – done";
    let page = page(markdown);
    let sentences: Vec<_> = page.sentences.iter().map(|sentence| (sentence.line, sentence.text.as_str())).collect();
    let expected = [
        (1, "One `two\u{a0}three` four."),
        (1, "five (six, e.g. seven)."),
        (2, "`eight\u{a0}nine`!"),
        (2, "\"Ten?\""),
        (2, "Eleven 1.5 – done"),
    ];
    assert_eq!(sentences, expected);
}

#[test]
fn code_blocks_and_the_text_of_images_are_no_sentences() {
    let page = page("![A picture. Of it](a.svg)\n\n```text\nSome code. More.\n```\n\n    indented\n");
    assert_eq!(page.sentences, []);
}

#[test]
fn links_that_lead_nowhere_are_found() {
    let root = std::env::temp_dir().join(format!("documents-{}", std::process::id()));
    fs::create_dir_all(root.join("docs")).unwrap();
    fs::write(root.join("other.md"), "# A `code` title, twice\n\n## A code title, twice\n\n<a id=\"here\"></a>\n")
        .unwrap();
    let good = "# Top of it\n[a](#top-of-it) [b](../other.md) [c](../other.md#a-code-title-twice) [d](../other.md#here)\n\
                [e](../other.md#a-code-title-twice-1) [f](https://example.org/x#y) <mail@example.org> [g][g]\n\
                <img src=\"../other.md\"> [default] [h](page.rs#L1)\n\n[g]: ../other.md\n";
    fs::write(root.join("docs/page.rs"), "fn f() {}\n").unwrap();
    let bad = "[a](#top)\n[b](other.md)\n[c](../other.md#nothing)\n[d][nothing]\n<img src=\"x.svg\">\n[e](../../x)\n[f](page.rs#L2)\n![g](y.svg)\n";
    let [good, bad] = [good, bad].map(|text| links::check(&root, &page(text)));
    fs::remove_dir_all(&root).unwrap();
    assert_eq!(text(good), [""; 0]);
    let expected = [
        "docs/page.md:1: this page has no heading #top",
        "docs/page.md:2: the link other.md leads to no file",
        "docs/page.md:3: other.md has no heading or line #nothing",
        "docs/page.md:5: the link x.svg leads to no file",
        "docs/page.md:6: the link ../../x leads out of the project",
        "docs/page.md:7: docs/page.rs has no heading or line #L2",
        "docs/page.md:8: the link y.svg leads to no file",
        "docs/page.md:4: the link [d][nothing] has no address",
    ];
    assert_eq!(text(bad), expected);
}

#[test]
fn commands_are_taken_apart_as_a_shell_would() {
    let block =
        "```console\n# a 'b c'  # comment\noutput # no\n$ sudo d \\\n    e && f < in > out | g; X=1 h 2>&1\n```\n";
    let lines = console::lines(&page(block));
    let commands: Vec<_> = lines.iter().map(|line| (line.line, line.commands())).collect();
    let words = |line: &str| line.split(' ').map(|word| word.replace('+', " ")).collect::<Vec<_>>();
    let expected = [(2, vec![words("a b+c")]), (4, vec![words("sudo d e"), words("f"), words("g"), words("X=1 h")])];
    assert_eq!(commands, expected);
    assert_eq!(console::lines(&page("```text\n# a\n```\n")), []);
    let [line] = console::lines(&page("```sh\n\na \\\nb\n```\n")).try_into().unwrap();
    assert_eq!((line.line, line.text.as_str(), line.has_prompt), (3, "a b", false));
}

#[test]
fn a_command_that_is_refused_is_found() {
    let accepts = |words: &[String]| if words == ["good"] { Ok(()) } else { Err("no such word".to_owned()) };
    let block = "```console\n# cargo xtask good\n# true && cargo xtask bad 1\n# cargo build\n```\n";
    let findings = commands::check(&page(block), "cargo xtask", &accepts);
    assert_eq!(text(findings), ["docs/page.md:3: `cargo xtask bad 1` is refused: no such word"]);
    let command = ["sudo", "A=1", "tool", "--all"].map(str::to_owned);
    assert_eq!(behind(&command, "tool"), Some(&command[3..]));
    assert_eq!(behind(&command, "other"), None);
}

#[test]
fn a_console_block_without_a_prompt_is_found() {
    let findings = commands::check_prompts(&page("```console\ncargo build\n```\n"));
    assert_eq!(findings.len(), 1);
    assert!(commands::check_prompts(&page("```console\n$ cargo build\n```\n")).is_empty());
}

#[test]
fn every_page_of_the_project_is_read() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("");
    let pages = super::pages(&root).unwrap();
    for name in ["README.md", "docs/algorithms.md", "CHANGELOG.md"] {
        assert!(pages.iter().any(|page| page.name == name && !page.sentences.is_empty()), "{name}");
    }
}
