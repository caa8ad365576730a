//! Random changes of bytes.

use ratelimit_tests::generate::random::Random;

/// The longest input, a little above what the server accepts.
const LONGEST: usize = 70_000;
/// Words that mean something to one of the readers.
const WORDS: [&[u8]; 47] = [
    b"\"attributes\"",
    b"\"cost\"",
    b"\"requests\"",
    b"\"limits\"",
    b"\"key\"",
    b"\"match\"",
    b"\"burst\"",
    b"\"clients\"",
    b"\"name\"",
    b"\"connection\"",
    b"identity-life",
    b"203.0.113.7:51000",
    b"\"ip\"",
    b"\"user\"",
    b"192.0.2.1",
    b"::ffff:192.0.2.1",
    b"2001:db8::1",
    b"4294967295",
    b"18446744073709551616",
    b"-1",
    b"1e309",
    b"0.1",
    b"null",
    b"true",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\"",
    b"\\u0000",
    b"\\ud800",
    b"\xff\xfe",
    b"\r\n",
    b"\n",
    b"|",
    b"[[check]]\n",
    b"limits = \"1/s\"\n",
    b"100M/s",
    b"soft=10%",
    b"sliding-log",
    b"content-length: ",
    b"transfer-encoding: chunked",
    b"x-cost: ",
    b"%00",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
];

/// Returns one of these inputs with some changes.
pub(super) fn mutated(corpus: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut bytes = corpus[random.below(corpus.len())].clone();
    for _ in 0..random.among(&[0, 1, 1, 1, 2, 2, 3, 5, 10]) {
        change(&mut bytes, corpus, random);
        bytes.truncate(LONGEST);
    }
    bytes
}

fn change(bytes: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut Random) {
    let at = random.below(bytes.len() + 1);
    let end = (at + 1 + random.below(16)).min(bytes.len());
    match random.below(9) {
        0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
        1 if at < bytes.len() => bytes[at] = random.next() as u8,
        2 => drop(bytes.drain(at..end)),
        3 => bytes.truncate(at),
        4 => drop(bytes.splice(at..at, random.among(&WORDS).iter().copied())),
        5 => drop(bytes.splice(at..end, random.among(&WORDS).iter().copied())),
        // A part again and again, such as an open bracket.
        6 => {
            let part = bytes[at..end].to_vec();
            let times = random.among(&[1, 2, 31, 130, 4_000]);
            drop(bytes.splice(at..at, part.repeat(times)));
        }
        7 => {
            let other = &corpus[random.below(corpus.len())];
            let from = random.below(other.len() + 1);
            bytes.truncate(at);
            bytes.extend_from_slice(&other[from..]);
        }
        _ => drop(bytes.splice(at..at, random.next().to_string().into_bytes())),
    }
}
