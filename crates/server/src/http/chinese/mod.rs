//! Answers in Chinese: the titles of problems, their details, and the sentences of other answers.
//!
//! A detail is made from the values of the problem where they suffice for a sentence, and else from its English phrase. Codes,
//! fields and values stay as they are. A detail without a translation stays in English: it tells more than a general sentence
//! would.

mod phrases;

use super::problem::WITHHELD;
use crate::dashboard::Language;
use axum::http::header::{CONTENT_LANGUAGE, HeaderValue, VARY};
use axum::response::Response;
use duetime_core::api::{Answer, Attention, Problem, Reservation, Taken, Why};
use duetime_core::invalid::{GIVEN, MEANT, NOTHING, UNKNOWN};

/// The title of each code.
const TITLES: [(&str, &str); 38] = [
    ("invalid", "请求不合法"),
    ("malformed_json", "请求体不是合法的 JSON"),
    ("body_unreadable", "请求体无法读取"),
    ("unauthorized", "需要有效的令牌"),
    ("forbidden", "令牌没有权限"),
    ("foreign_origin", "不允许来自其他来源的请求"),
    ("no_route", "没有这个路径"),
    ("not_found", "没有这个任务"),
    ("schedule_not_found", "没有这个周期任务"),
    ("method_not_allowed", "不支持这个方法"),
    ("timeout", "请求体没有及时到达"),
    ("key_conflict", "唯一键已被占用"),
    ("version_mismatch", "版本不一致"),
    ("lease_lost", "租约已失效"),
    ("job_running", "任务正在执行"),
    ("already_finished", "任务已经结束"),
    ("not_due", "任务尚未到期"),
    ("held_back", "任务暂不能执行"),
    ("job_live", "任务尚未结束"),
    ("lock_lost", "锁已失效"),
    ("queue_in_use", "队列正在使用"),
    ("body_too_large", "请求体过大"),
    ("media_type", "不支持这种媒体类型"),
    ("foreign_host", "未知的主机名"),
    ("origin_reused", "来源标识已被使用"),
    ("lock_held", "锁已被占用"),
    ("too_many_requests", "请求过多"),
    ("queue_full", "队列已满"),
    ("head_too_large", "请求头过大"),
    ("internal", "内部错误"),
    ("store_damaged", "存储已损坏"),
    ("store_unusable", "存储无法使用"),
    ("store_unavailable", "存储不可用"),
    ("too_many_bodies", "同时处理的请求体过多"),
    ("too_many_streams", "事件流过多"),
    ("stopping", "服务器正在停止"),
    ("backlog", "结果无法写入"),
    ("store_full", "存储已满"),
];

/// An answer with words for people.
pub(super) trait Wording {
    /// Puts its words into Chinese.
    fn tell(&mut self);
}

/// Names the language of an answer in Chinese.
pub(super) fn mark(response: &mut Response) {
    response.headers_mut().insert(CONTENT_LANGUAGE, HeaderValue::from_static("zh-CN"));
    response.headers_mut().insert(VARY, HeaderValue::from_static("accept-language"));
}

impl Wording for Problem {
    fn tell(&mut self) {
        if let Some((_, title)) = TITLES.iter().find(|(code, _)| *code == self.code) {
            (*title).clone_into(&mut self.title);
        }
        if let Some(detail) = detail(self).or_else(|| phrases::detail(&self.detail)) {
            self.detail = detail;
        }
    }
}

impl<T> Wording for Vec<Answer<T>> {
    fn tell(&mut self) {
        for answer in self {
            if let Answer::Problem(problem) = answer {
                problem.tell();
            }
        }
    }
}

impl Wording for Reservation<'_> {
    fn tell(&mut self) {
        self.refused.iter_mut().for_each(Wording::tell);
    }
}

impl Wording for Taken<'_> {
    fn tell(&mut self) {
        self.refused.iter_mut().for_each(Wording::tell);
    }
}

impl Wording for Why {
    fn tell(&mut self) {
        for reason in &mut self.reasons {
            let said = Language::Chinese.reason(reason);
            reason.detail = match reason.since {
                Some(since) => format!("{said} {since}。"),
                None => said,
            };
        }
    }
}

impl Wording for Attention {
    fn tell(&mut self) {
        for item in &mut self.items {
            item.detail = Language::Chinese.attention(item, self.as_of.0);
        }
    }
}

fn detail(problem: &Problem) -> Option<String> {
    let id = || problem.id.map(|id| id.to_string());
    Some(match &*problem.code {
        "invalid" => invalid(problem.field.as_ref()?, problem.expected.as_ref()?, problem.got.as_ref()?),
        "not_found" => format!("任务 {} 不存在", id()?),
        "schedule_not_found" => format!("周期任务 {} 不存在", problem.schedule.as_ref()?),
        "key_conflict" => {
            format!(
                "队列 {} 的唯一键 {:?} 已被任务 {} 占用",
                problem.queue.as_ref()?,
                problem.key.as_ref()?,
                problem.holder?
            )
        }
        "origin_reused" => {
            let [queue, origin] = [problem.queue.as_ref()?, problem.origin.as_ref()?];
            let differs = problem.differs.as_ref()?.join("、");
            format!("队列 {queue} 的来源标识 {origin:?} 已用于任务 {}，但内容不同：{differs}", id()?)
        }
        "version_mismatch" => format!("当前版本是 {}，请重新读取后再修改", problem.current_version?),
        "lease_lost" => format!("租约 {} 已失效：已过期，或任务已结束、已取消。请丢弃结果", problem.receipt?),
        "job_running" => format!("任务 {} 正在执行：请取消它，或等它结束", id()?),
        "already_finished" => format!("任务 {} 已经结束，状态为 {}", id()?, problem.state?),
        "not_due" => format!("任务 {} 尚未到期：请等待，或立即执行", id()?),
        "held_back" => format!("任务 {} 暂不能执行：队列已暂停，或任务已过期", id()?),
        "job_live" => format!("任务 {} 尚未结束，不能重试；等待中的任务可以立即执行", id()?),
        "lock_held" => format!("锁 {:?} 已被占用，不续期的话 {} 后到期", problem.lock.as_ref()?, problem.expires_in?),
        "lock_lost" => {
            let [lock, owner] = [problem.lock.as_ref()?, problem.owner.as_ref()?];
            format!("{owner:?} 没有以 fencing token {} 持有锁 {lock:?}：已到期、已释放或已被接管", problem.fence?)
        }
        "queue_in_use" => {
            let (queue, schedules) = (problem.queue.as_ref()?, problem.schedules.as_ref()?.join("、"));
            let pushes = if schedules.is_empty() {
                String::new()
            } else {
                format!("，周期任务 {schedules} 会向它提交")
            };
            let (waiting, running) = (problem.waiting?, problem.running?);
            format!(
                "队列 {queue} 正在使用：{waiting} 个任务等待，{running} 个任务执行中{pushes}。强制删除会取消等待的任务，请求执行中的任务停止，\
                 并在没有任务执行后删除队列"
            )
        }
        "queue_full" => format!(
            "队列 {} 已满：最多 {} 个任务等待。请稍后重试，或增加 worker",
            problem.queue.as_ref()?,
            problem.max_waiting?
        ),
        "backlog" => format!("有 {} 个结果等待写入，暂不分发任务。请让存储恢复可写", problem.backlog?),
        // The reason is withheld, and in the log.
        "store_unavailable" => "存储不可用，原因见服务器日志。请稍后重试".to_owned(),
        "store_full" if problem.reason.as_deref() == Some(WITHHELD) => {
            "存储已满，原因见服务器日志。请腾出空间".to_owned()
        }
        "store_damaged" => "存储已损坏，原因见服务器日志".to_owned(),
        "store_unusable" => "存储无法使用，原因见服务器日志".to_owned(),
        "too_many_requests" => format!("此令牌的请求过多，请在 {} 后重试", problem.retry_after?),
        "stopping" => "此进程正在停止，请换一个再试".to_owned(),
        _ => return None,
    })
}

fn invalid(field: &str, expected: &str, got: &str) -> String {
    match (got, expected.strip_prefix(MEANT).and_then(|rest| rest.split_once('?'))) {
        (NOTHING, _) if expected == GIVEN => format!("缺少 `{field}`"),
        (UNKNOWN, Some((meant, _))) => format!("没有 `{field}`，是不是想写 {meant}？"),
        (UNKNOWN, None) => {
            format!("没有 `{field}`，可用的有：{}", expected.trim_start_matches("one of ").replace("`, `", "`、`"))
        }
        _ => {
            let told = phrases::expected(expected);
            format!("`{field}` 不合法。应为：{}；实际为：{}", told.as_deref().unwrap_or(expected), phrases::got(got))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::problem::CODES;
    use duetime_core::{Error, JobId};

    #[test]
    fn each_code_has_a_title() {
        assert!(TITLES.iter().map(|(code, _)| code).eq(CODES.iter().map(|(code, ..)| code)));
    }

    #[test]
    fn details_have_the_values_of_the_problem() {
        let id = JobId::MIN;
        for (error, detail) in [
            (Error::invalid("x", "rare", "the number 5"), "`x` 不合法。应为：rare；实际为：数字 5".to_owned()),
            (Error::invalid("limit", "between 1 and 9", 0), "`limit` 不合法。应为：1 到 9；实际为：0".to_owned()),
            (Error::invalid("to", "given", NOTHING), "缺少 `to`".to_owned()),
            (
                Error::invalid("dalay", "did you mean `delay`? Accepted: `a`", UNKNOWN),
                "没有 `dalay`，是不是想写 `delay`？".to_owned(),
            ),
            (Error::invalid("x", "one of `a`, `b`", UNKNOWN), "没有 `x`，可用的有：`a`、`b`".to_owned()),
            (Error::NotFound(id), format!("任务 {id} 不存在")),
            (
                Error::QueueInUse { queue: "q".into(), waiting: 2, running: 0, schedules: vec!["s".into()] },
                "队列 q 正在使用：2 个任务等待，0 个任务执行中，周期任务 s 会向它提交。强制删除会取消等待的任务，请求执行中的任务停止，\
                 并在没有任务执行后删除队列"
                    .to_owned(),
            ),
            (
                Error::QueueFull { queue: "q".into(), max_waiting: 9 },
                "队列 q 已满：最多 9 个任务等待。请稍后重试，或增加 worker".to_owned(),
            ),
            (Error::VersionMismatch { id, current: 7 }, "当前版本是 7，请重新读取后再修改".to_owned()),
            (Error::Full(WITHHELD.to_owned()), "存储已满，原因见服务器日志。请腾出空间".to_owned()),
        ] {
            let english = Problem::of(&error, 400, "x");
            let mut problem = english.clone();
            problem.tell();
            assert_eq!(problem.detail, detail);
            assert_ne!(problem.title, "x");
            let words = |problem: Problem| Problem { title: String::new(), detail: String::new(), ..problem };
            assert_eq!(words(problem), words(english), "only words change");
        }
    }
}
