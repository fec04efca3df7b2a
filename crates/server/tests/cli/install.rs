//! Files for packagers and shells: completions and manual pages.

use crate::cli::support::{Place, finish};
use std::process::Command;

fn script(place: &Place, shell: &str) -> String {
    let ran = finish(place.bare(&["completions", shell]), b"");
    assert_eq!(ran.code, 0, "{ran:?}");
    ran.out
}

#[test]
fn bash_completes_commands_and_options() {
    let place = Place::new();
    std::fs::write(place.path("completions"), script(&place, "bash")).unwrap();
    let complete = |words: &str, last: usize| {
        let line = format!(
            "source ./completions; COMP_WORDS=({words}); COMP_CWORD={last}; _duetime duetime \"${{COMP_WORDS[{last}]}}\" \"\"; echo \"${{COMPREPLY[@]}}\""
        );
        let mut command = Command::new("bash");
        command.args(["-c", &line]).current_dir(place.path(""));
        let ran = finish(command, b"");
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.out
    };
    assert!(complete("duetime res", 1).contains("reserve"), "{}", complete("duetime res", 1));
    assert!(complete("duetime push --pri", 2).contains("--priority"));
    assert!(complete("duetime config ch", 2).contains("check"));
}

#[test]
fn other_shells_have_theirs() {
    let place = Place::new();
    assert!(script(&place, "zsh").starts_with("#compdef duetime"));
    assert!(script(&place, "fish").contains("complete -c duetime"));
    assert!(script(&place, "elvish").contains("duetime") && script(&place, "powershell").contains("duetime"));
    assert_eq!(finish(place.bare(&["completions", "csh"]), b"").code, 2);
}

#[test]
fn there_is_a_page_for_every_command() {
    let place = Place::new();
    let ran = finish(place.bare(&["man", "share/man"]), b"");
    assert_eq!((ran.code, &*ran.out), (0, ""), "{ran:?}");
    for (name, word) in [("duetime.1", "EXTRA"), ("duetime-push.1", "priority"), ("duetime-config-check.1", "listen")] {
        let page = std::fs::read_to_string(place.path("share/man").join(name)).unwrap();
        assert!(page.contains(".TH") && page.contains(word), "{name}");
    }
    std::fs::write(place.path("file"), "").unwrap();
    let ran = finish(place.bare(&["man", "file"]), b"");
    assert!(ran.code == 1 && ran.err.contains("cannot create the folder"), "{ran:?}");
}
