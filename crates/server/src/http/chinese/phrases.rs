//! Chinese phrases for the expected and the received value of an error, and for details without values. Names and values are
//! not translated.

/// English, and Chinese: each `{}` stands for some text. The first that matches is taken.
const EXPECTED: &[[&str; 2]] = &[
    ["a string", "字符串"],
    ["a number", "数字"],
    ["an object", "对象"],
    ["an array", "数组"],
    ["`true` or `false`", "`true` 或 `false`"],
    ["a whole number, {} or more", "不小于 {} 的整数"],
    ["a whole number from {} to {}", "{} 到 {} 的整数"],
    ["between {} and {} queues", "{} 到 {} 个队列"],
    ["between {} and {} steps", "{} 到 {} 步"],
    ["between {} and {}", "{} 到 {}"],
    ["from {} to {} (10 years)", "{} 到 {}（10 年）"],
    ["at most {} in a batch", "一批最多 {} 个"],
    ["at most {} bytes of names and values", "名称和值共最多 {} 字节"],
    ["at most {} bytes", "最多 {} 字节"],
    ["at most {} entries", "最多 {} 项"],
    ["at most {} queues", "最多 {} 个队列"],
    ["at most {} tags", "最多 {} 个标签"],
    ["at most 10 years ahead, {}", "最多提前 10 年，即 {}"],
    ["at most the limit of {}", "不超过 limit 的 {} 个"],
    ["at most {}", "最多 {}"],
    ["1 or more (to hand out nothing, pause the queue)", "不小于 1（要停止分发，请暂停队列）"],
    ["1 to {} visible ASCII characters", "1 到 {} 个可见的 ASCII 字符"],
    ["1 to {} bytes", "1 到 {} 字节"],
    ["1 to 200 of {}, not starting with -", "1 到 200 个字符，可用 {}，不能以 - 开头"],
    ["names of 1 to {} characters {}", "1 到 {} 个字符的名称，可用 {}"],
    ["values of at most {} bytes", "最多 {} 字节的值"],
    ["an object whose values are texts, such as {}", "值为字符串的对象，例如 {}"],
    ["an object with different names", "名称互不相同的对象"],
    ["an object with exactly one of {} and {}", "恰好含有 {}、{} 之一的对象"],
    ["an object such as {}", "对象，例如 {}"],
    ["a duration {}, such as {}", "{} 的时长，例如 {}"],
    ["a duration such as {}", "时长，例如 {}"],
    ["a duration from {} to {}", "{} 到 {} 的时长"],
    ["an instant within the next 10 years; it is {}", "今后 10 年内的时刻，现在是 {}"],
    ["an instant such as {} or {}", "时刻，例如 {} 或 {}"],
    ["an instant such as {}", "时刻，例如 {}"],
    ["milliseconds since 1970, {} or more", "自 1970 年起的毫秒数，不小于 {}"],
    ["now ({}) or earlier", "不晚于现在（{}）"],
    ["not before the start, {}", "不早于开始时间 {}"],
    ["given once", "只给出一次"],
    ["given either as {} or as {}", "用 {} 或 {} 之一给出"],
    ["given as {} or as {}", "用 {} 或 {} 给出"],
    ["given as {}", "以 {} 给出"],
    ["given by at most one of {} and {}", "最多用 {}、{} 之一给出"],
    ["given, or one of {} and {}", "必须给出，或改用 {}、{} 之一"],
    ["given, or {} instead", "必须给出，或改用 {}"],
    ["given without {} and {}", "不与 {}、{} 同时给出"],
    ["given without {}", "不与 {} 同时给出"],
    ["given with {}", "与 {} 同时给出"],
    ["limited by at least one of {} and {}", "至少用 {}、{} 之一限定范围"],
    ["limited by {} or by {}", "用 {} 或 {} 之一限定"],
    ["left out, or {} as in the path", "不填，或与路径一致：{}"],
    ["left out, because the path names the queue", "不填：队列由路径指定"],
    ["left out: each job of a schedule is due at the time of its run", "不填：周期任务提交的任务在执行时刻到期"],
    ["left out: each job is due at the time of its run", "不填：任务在执行时刻到期"],
    ["left out: each run pushes a new job", "不填：每次执行都会提交新任务"],
    ["left out: a job that follows has none", "不填：后续任务没有这一项"],
    ["left out, since `debounce` says when the job is due", "不填：到期时间由 `debounce` 决定"],
    ["a word: each job is due at the time of its run", "一个词：任务在执行时刻到期"],
    ["left out if jobs are named", "指定任务时不填"],
    ["left out unless `paused` is true", "不填，除非 `paused` 为 true"],
    ["left out with `every`: an interval is the same in every time zone", "使用 `every` 时不填：间隔与时区无关"],
    [
        "left out, because the queue has no target in its settings: its jobs are handed to workers",
        "不填：队列没有设置投递目标，任务由 worker 领取",
    ],
    ["the only one of {} and {}", "{}、{} 中仅一个"],
    ["the `next_cursor` of an earlier answer", "之前的应答里的 `next_cursor`"],
    [
        "the `next_cursor` of an earlier page of the same list: with the same queue, states, tag, key and kind",
        "同一列表前面一页的 `next_cursor`：队列、状态、标签、键和种类都相同",
    ],
    ["a receipt such as {}, as `reserve` returned it", "`reserve` 返回的 receipt，例如 {}"],
    ["a job id: a decimal number from {} to {}", "任务编号：{} 到 {} 的十进制数"],
    ["an ETag in quotes, such as {}, or *", "带引号的 ETag，例如 {}，或者 *"],
    ["standard base64 with padding", "带填充的标准 base64"],
    ["base64 text", "base64 文本"],
    ["different from each other", "互不相同"],
    ["another queue", "另一个队列"],
    ["valid Unicode", "合法的 Unicode"],
    ["an expression that matches at least one date", "至少匹配一个日期的表达式"],
    ["a cron expression with {} as its minute, also as {}", "分钟部分为 {} 的 cron 表达式，也可以写成 {}"],
    ["a cron expression with {} as its hour, also as {}", "小时部分为 {} 的 cron 表达式，也可以写成 {}"],
    ["a cron expression with {} as its day, also as {}", "日期部分为 {} 的 cron 表达式，也可以写成 {}"],
    ["a cron expression with {} as its month, also as {}", "月份部分为 {} 的 cron 表达式，也可以写成 {}"],
    ["a cron expression with {} as its weekday, also as {}", "星期部分为 {} 的 cron 表达式，也可以写成 {}"],
    ["a name of the IANA time zone database, such as {}", "IANA 时区数据库中的名称，例如 {}"],
    ["a URL that begins with {} or {}", "以 {} 或 {} 开头的 URL"],
    ["one of {}", "{} 之一"],
    ["{} or more", "不小于 {}"],
];

const GOT: &[[&str; 2]] = &[
    ["nothing", "未给出"],
    ["none", "没有"],
    ["none of them", "都没有"],
    ["neither", "两者都没有"],
    ["both", "两者都给出"],
    ["several", "多个"],
    ["it twice", "两次"],
    ["{} twice", "{} 出现两次"],
    ["an object", "对象"],
    ["an array", "数组"],
    ["the number {}", "数字 {}"],
    ["`{}` and `{}`", "`{}`、`{}`"],
    ["{}: a duration cannot be negative", "{}，时长不能为负"],
    ["{}: no blanks are allowed; the units are d, h, m, s and ms", "{}，不能有空格，单位有 d、h、m、s、ms"],
    ["{}: a number without a unit; there are d, h, m, s and ms", "{}，缺少单位，单位有 d、h、m、s、ms"],
    ["{}: only whole numbers, each with a unit: d, h, m, s or ms", "{}，只能用整数，各带单位 d、h、m、s、ms"],
    [
        "{}: an unknown unit; there are d, h, m, s and ms, and no duration can be longer than 10 years ({})",
        "{}，没有这个单位，单位有 d、h、m、s、ms，且时长不能超过 10 年（{}）",
    ],
    ["{}: an unknown unit; there are d, h, m, s and ms", "{}，没有这个单位，单位有 d、h、m、s、ms"],
    ["{}: units go from long to short, each at most once", "{}，单位要从大到小，各最多一次"],
    ["{}: no duration can be longer than 10 years ({})", "{}，时长不能超过 10 年（{}）"],
    ["{}, which looks like seconds", "{}，像是以秒为单位"],
    ["{}, which looks like microseconds", "{}，像是以微秒为单位"],
    ["{}, which looks like nanoseconds", "{}，像是以纳秒为单位"],
    ["{} bytes", "{} 字节"],
    ["{} characters", "{} 个字符"],
];

/// Details of problems that have no values.
const DETAILS: &[[&str; 2]] = &[
    [
        "this needs the right `{}` for all names (or name one in the request); the token has: {}",
        "需要权限 `{}`，范围为所有名称（或在请求中指明一个）。此令牌的权限：{}",
    ],
    [
        "this needs the right `{}` for the job's queue, to change a payload; the token has: {}",
        "修改内容需要对任务所在队列的权限 `{}`。此令牌的权限：{}",
    ],
    ["this needs the right `{}` for {}; the token has: {}", "需要权限 `{}`，范围为 {}。此令牌的权限：{}"],
    ["this needs the right `{}`; the token has: {}", "需要权限 `{}`。此令牌的权限：{}"],
    [
        "a schedule with this name exists for another queue; choose another name",
        "同名的周期任务已存在，属于另一个队列。请换一个名称",
    ],
    [
        "the header `authorization: Bearer TOKEN` is missing, or is there several times",
        "缺少请求头 `authorization: Bearer TOKEN`，或者有多个",
    ],
    [
        "the header `authorization` must be `Bearer TOKEN`, got another scheme or no scheme",
        "请求头 `authorization` 应为 `Bearer TOKEN`，实际是其他方案，或没有方案",
    ],
    ["the token is unknown, revoked or expired", "令牌不存在、已撤销或已过期"],
    [
        "`origin` must be missing or this server's own, got {}; call the API from your backend",
        "`origin` 应为空或此服务器自己的来源，实际为 {}。请从你的后端调用 API",
    ],
    ["there is no path {}, asked for with {}; see /docs", "没有路径 {}（方法 {}），可用的路径见 /docs"],
    [
        "{} does not accept {}; the header `allow` lists what it accepts",
        "{} 不支持 {}，应答头 `allow` 列出了支持的方法",
    ],
    ["{} has no query parameters, got {}", "{} 没有查询参数，实际有 {}"],
    ["the job's key is held by another job", "任务的唯一键已被另一个任务占用"],
    ["the connection broke before the whole body arrived", "请求体还没收全，连接就断开了"],
    ["the body did not arrive within {} s", "请求体没有在 {} 秒内到达"],
    [
        "the body arrives too slowly: at least {} KiB in {} s are needed, and more while others wait",
        "请求体到达得太慢：至少需要 {} KiB 每 {} 秒，有其他请求等待时还要更快",
    ],
    [
        "the body is not complete, valid gzip, although its `content-encoding` says so",
        "请求体不是完整、合法的 gzip，但 `content-encoding` 说它是",
    ],
    ["the body must have at most {} bytes, got more", "请求体最多 {} 字节，实际更多"],
    ["the body must have at most {} bytes, got {}", "请求体最多 {} 字节，实际为 {}"],
    ["`content-encoding` must be gzip or left out, got {}", "`content-encoding` 应为 gzip 或不填，实际为 {}"],
    ["`content-type` must be application/json, got {}", "`content-type` 应为 application/json，实际为 {}"],
    [
        "path and headers must have at most {} bytes and {} headers, got {} and {}",
        "路径和请求头最多 {} 字节、{} 个请求头，实际为 {} 和 {}",
    ],
    ["the request has several `host` headers; send one", "请求有多个 `host` 请求头，请只发一个"],
    [
        "`host` must be localhost, an IP address, or a name that the server allows with --allow-host (`allow_host` of a mounted router), got {}",
        "`host` 应为 localhost、IP 地址，或服务器用 --allow-host（挂载的路由用 `allow_host`）允许的名称，实际为 {}",
    ],
    [
        "{} queues are known, and the limit is {}; delete unused queues, use fewer names, or raise --memory-max",
        "已有 {} 个队列，上限为 {} 个。请删除不用的队列，少用一些名称，或提高 --memory-max",
    ],
    [
        "{} locks are held or waited for, the limit; release some, or use Redis",
        "已有 {} 个锁被持有或等待，达到上限。请释放一些，或使用 Redis",
    ],
    [
        "Redis uses about {} bytes of memory, and new jobs are refused above {}; raise its maxmemory, or let workers catch up",
        "Redis 约用了 {} 字节内存，超过 {} 时拒绝新任务。请提高它的 maxmemory，或等 worker 赶上",
    ],
    [
        "other requests use all memory for requests (--requests-memory-max) at the moment; try again",
        "其他请求占满了请求的内存（--requests-memory-max），请重试",
    ],
    [
        "other answers use all memory for answers (--requests-memory-max) at the moment; try again",
        "其他应答占满了应答的内存（--requests-memory-max），请重试",
    ],
    ["the server has {} open event streams, the limit; close one", "服务器的事件流已达上限 {} 个，请关闭一个"],
    ["this token has {} open event streams, the limit; close one", "此令牌的事件流已达上限 {} 个，请关闭一个"],
    ["the server failed to handle this request; see its log", "服务器处理此请求时出错，原因见日志"],
];

/// What is wrong with text that is not JSON.
const SYNTAX: &[[&str; 2]] = &[
    ["it is not UTF-8 at byte {}", "第 {} 字节不是 UTF-8"],
    ["it ends within an object", "在对象中间就结束了"],
    ["it ends within an array", "在数组中间就结束了"],
    ["it ends within a string", "在字符串中间就结束了"],
    ["it ends too early", "结束得太早"],
    ["it is nested more than 127 levels deep", "嵌套超过 127 层"],
    ["a value is expected", "这里应该是一个值"],
    ["a colon is expected after a name", "名称后应有冒号"],
    ["a comma or `}` is expected", "这里应该是逗号或 `}`"],
    ["a comma or `]` is expected", "这里应该是逗号或 `]`"],
    ["a name in double quotes is expected", "这里应该是双引号中的名称"],
    ["a comma stands before the end of an object or array", "对象或数组结束前有多余的逗号"],
    ["something follows the value", "值的后面还有内容"],
    ["a number is not valid", "数字不合法"],
    ["a string contains a control character; write it as \\u…", "字符串含有控制字符，请写成 \\u…"],
    ["a string contains an invalid escape", "字符串含有不合法的转义"],
    ["it is not valid", "不合法"],
];

/// Translates a detail that has a fixed English phrase.
pub(super) fn detail(english: &str) -> Option<String> {
    let Some(why) = english.strip_prefix("in the body: ") else {
        return DETAILS.iter().find_map(|of| told(english, *of));
    };
    let place = why.split_once(", at line ").and_then(|(why, place)| Some((why, place.split_once(" column ")?)));
    let (why, place) = place.map_or((why, None), |(why, place)| (why, Some(place)));
    let why = SYNTAX.iter().find_map(|of| told(why, *of))?;
    Some(match place {
        Some((line, column)) => format!("请求体第 {line} 行第 {column} 列：{why}"),
        None => format!("请求体：{why}"),
    })
}

/// What was expected.
pub(super) fn expected(english: &str) -> Option<String> {
    let mut said = EXPECTED.iter().find_map(|of| told(english, *of))?;
    for (words, chinese) in [("\", \"", "\"、\""), ("\" or \"", "\" 或 \""), ("`, `", "`、`"), ("10 years", "10 年")]
    {
        said = said.replace(words, chinese);
    }
    Some(said)
}

/// What came. Values stand for themselves.
pub(super) fn got(english: &str) -> String {
    GOT.iter().find_map(|of| told(english, *of)).unwrap_or_else(|| english.to_owned())
}

/// The Chinese phrase with the values of the English one, if that is the phrase.
fn told(text: &str, [english, chinese]: [&str; 2]) -> Option<String> {
    let mut values = Vec::new();
    let (mut parts, mut rest) = (english.split("{}"), text);
    rest = rest.strip_prefix(parts.next()?)?;
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        let (value, after) = if part.is_empty() && parts.peek().is_none() {
            (rest, "")
        } else if parts.peek().is_none() {
            (rest.strip_suffix(part)?, "")
        } else {
            rest.split_once(part)?
        };
        if value.is_empty() {
            return None;
        }
        values.push(value);
        rest = after;
    }
    if !rest.is_empty() {
        return None;
    }
    let mut said = String::new();
    let mut values = values.into_iter();
    for part in chinese.split_inclusive("{}") {
        match part.strip_suffix("{}") {
            Some(words) => said.extend([words, values.next()?]),
            None => said.push_str(part),
        }
    }
    Some(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phrase_keeps_its_values() {
        for (english, chinese) in [
            ("between 1 and 1000", "1 到 1000"),
            ("between 1 and 64 queues", "1 到 64 个队列"),
            ("between 1s and 10 years (3652d12h)", "1s 到 10 年 (3652d12h)"),
            ("a duration such as \"1ms\", \"30s\" or \"7d\"", "时长，例如 \"1ms\"、\"30s\" 或 \"7d\""),
            ("given without `jobs`", "不与 `jobs` 同时给出"),
            ("now (2026-01-01T00:00:00Z) or earlier", "不晚于现在（2026-01-01T00:00:00Z）"),
            ("a string", "字符串"),
        ] {
            assert_eq!(expected(english).as_deref(), Some(chinese));
        }
        for unknown in ["", "a strings", "between and", "what MySQL can store"] {
            assert_eq!(expected(unknown), None, "{unknown}");
        }
        for (english, chinese) in
            [("the number 5", "数字 5"), ("\"x\"", "\"x\""), ("0 bytes", "0 字节"), ("neither", "两者都没有")]
        {
            assert_eq!(got(english), chinese);
        }
    }

    #[test]
    fn what_is_wrong_with_a_duration_is_told() {
        for text in ["-5s", "1 hour", "30", "1.5h", "5 parsecs", "5x", "1s1h", "999999999999999999999d"] {
            let problem = text.parse::<duetime_core::api::Span>().unwrap_err();
            let (_, came) = problem.split_once(", got ").unwrap();
            let said = got(came);
            assert!(said.starts_with(&format!("{text:?}，")) && !said.contains(" and "), "{said}");
        }
    }

    #[test]
    fn phrases_have_the_same_holes_and_can_be_reached() {
        type Say = fn(&str) -> Option<String>;
        let lists: [(&[[&str; 2]], Say); 4] = [
            (EXPECTED, expected),
            (GOT, |english| Some(got(english))),
            (DETAILS, detail),
            (SYNTAX, |why| detail(&format!("in the body: {why}"))?.strip_prefix("请求体：").map(str::to_owned)),
        ];
        for (all, say) in lists {
            for [english, chinese] in all {
                let said = say(&english.replace("{}", "7"));
                assert_eq!(said, Some(chinese.replace("{}", "7")), "{english}");
            }
        }
    }

    #[test]
    fn a_detail_keeps_its_values_and_its_place() {
        for (english, chinese) in [
            ("in the body: it ends within an object, at line 1 column 7", "请求体第 1 行第 7 列：在对象中间就结束了"),
            ("in the body: it is not UTF-8 at byte 12", "请求体：第 12 字节不是 UTF-8"),
            (
                "this needs the right `admin` for \"q\"; the token has: read, push:a*",
                "需要权限 `admin`，范围为 \"q\"。此令牌的权限：read, push:a*",
            ),
            (
                "this needs the right `read` for all names (or name one in the request); the token has: none",
                "需要权限 `read`，范围为所有名称（或在请求中指明一个）。此令牌的权限：none",
            ),
        ] {
            assert_eq!(detail(english).as_deref(), Some(chinese));
        }
        assert_eq!(detail("in the body: unheard of, at line 1 column 7"), None);
        assert_eq!(detail("unheard of"), None);
    }
}
