//! Pages in Chinese: a paragraph is one line, there are no blanks where lines were joined, and one word stands for one concept.
//!
//! Browsers show the end of a line within a paragraph as a blank, which Chinese does not have between words.

use super::Finding;
use crate::repo::Source;

/// Words that stand for a concept that has another word here; `CONTRIBUTING.md` lists all of them.
const WORDS: [(&str, &str); 5] =
    [("推送", "提交"), ("工作进程", "worker"), ("定时计划", "周期任务"), ("调度计划", "周期任务"), ("您", "你")];
/// The texts of the dashboard.
const TEXTS: &str = "crates/server/src/dashboard/text.rs";
const MARKS: &str = "，。；：、！？）（";

pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for source in sources {
        let is_page = source.path.ends_with(".zh-CN.md");
        if !is_page && source.path != TEXTS {
            continue;
        }
        let (mut is_code, mut was_prose) = (false, false);
        for (index, line) in source.text.lines().enumerate() {
            let mut report = |advice: String| {
                findings.push(Finding { path: source.path.clone(), line: index + 1, advice });
            };
            is_code ^= line.starts_with("```");
            for (word, better) in WORDS.iter().filter(|(word, _)| line.contains(word)) {
                report(format!("expected {better}, got {word}"));
            }
            let is_prose = is_page
                && !is_code
                && line.starts_with(|first: char| is_chinese(first) || first.is_alphabetic() || "`[*".contains(first));
            if is_prose && was_prose {
                report("expected one line for the paragraph".to_owned());
            }
            if is_page && !is_code && has_blank(line) {
                report("expected no blank after a Chinese mark or between Chinese letters".to_owned());
            }
            was_prose = is_prose;
        }
    }
    findings
}

fn is_chinese(letter: char) -> bool {
    ('\u{4e00}'..='\u{9fff}').contains(&letter)
}

/// Whether a blank follows a Chinese mark, or stands between Chinese letters.
fn has_blank(line: &str) -> bool {
    let letters: Vec<char> = line.trim_end_matches([' ', '|']).chars().collect();
    letters.windows(3).any(|three| {
        let [before, blank, after] = three else { return false };
        let is_mark = MARKS.contains(*before) && *after != '|';
        *blank == ' ' && (is_mark || is_chinese(*before) && is_chinese(*after))
    })
}

#[cfg(test)]
mod tests {
    use super::super::source;
    use super::*;

    #[test]
    fn chinese_pages_are_read_as_chinese() {
        let lines = |path: &str, text: &str| {
            check(&[source(path, text)]).iter().map(|finding| finding.line).collect::<Vec<_>>()
        };
        let page = "docs/a.zh-CN.md";
        let right = "# 标题\n\n提交任务，用 worker 执行。\n\n- 一\n- 二\n\n| 列 | 内容 |\n|---|---|\n| 一， | 二 |\n\n```sh\n推 a\n推 b\n```\n";
        assert_eq!(lines(page, right), [0; 0]);
        assert_eq!(lines(page, "第一行，\n第二行\n\n第三行\n"), [2]);
        assert_eq!(lines(page, "一个， 空格\n\n两 个\n"), [1, 3]);
        assert_eq!(lines(page, "- 推送任务\n- 工作进程\n"), [1, 2]);
        assert_eq!(lines(TEXTS, "    A: \"Push\", \"推送\";\n    B: \"b\", \"一， 二\";\n"), [1]);
        assert_eq!(lines("docs/a.md", "推送， 一\n推送\n"), [0; 0]);
    }
}
