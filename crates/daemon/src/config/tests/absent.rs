//! Tables and keys that need a feature which this build lacks.

use super::problems;

#[test]
fn what_this_build_lacks_is_named_with_its_place() {
    let lacks = [
        ("crowdsec", cfg!(feature = "crowdsec"), "[crowdsec]\nkey-file = \"/etc/key\"\n", "2:"),
        ("fleet", cfg!(feature = "fleet"), "[fleet]\nengine = \"redis://127.0.0.1\"\n", "2:"),
        (
            "lists",
            cfg!(feature = "lists"),
            "[[list]]\nname = \"drop\"\nurl = \"https://feeds.example/drop\"\naction = \"deny\"\n",
            "4:7: ",
        ),
    ];
    for (feature, _, table, place) in lacks.iter().filter(|(_, is_there, ..)| !is_there) {
        let problems = problems(&format!("interfaces = []\n{table}"));
        let [problem] = &problems[..] else { panic!("{feature}: {problems:?}") };
        let expected = format!("built without `{feature}`: remove this, or use a build of ratelimit with all features");
        assert!(problem.starts_with(place) && problem.ends_with(&expected), "{problem}");
    }
}
