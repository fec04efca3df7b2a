//! Every text of the dashboard, in every language.

use duetime_core::State;
use duetime_core::api::{DegradedCode, Reason, ReasonCode};

macro_rules! texts {
    ($($name:ident: $english:literal, $chinese:literal;)*) => {
        /// A text.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Text { $($name),* }

        impl Text {
            /// All of them.
            #[cfg(test)]
            pub(super) const ALL: &[Self] = &[$(Self::$name),*];

            /// In English, and in Simplified Chinese.
            pub(super) fn in_all(self) -> [&'static str; 2] {
                match self { $(Self::$name => [$english, $chinese]),* }
            }
        }
    };
}

texts! {
    // Names of pages.
    Overview: "Overview", "总览";
    Queues: "Queues", "队列";
    Jobs: "Jobs", "任务";
    Failed: "Failed", "失败";
    Schedules: "Schedules", "周期任务";
    Workers: "Workers", "worker";
    Locks: "Locks", "锁";
    Events: "Events", "事件";
    Pages: "Pages", "页面";
    SkipToContent: "Skip to content", "跳到正文";
    // Around each page.
    FindAnything: "Id, key, tag or kind", "编号、唯一键、标签或类型";
    Live: "Live", "实时";
    LiveHint: "Refresh this page as jobs change", "任务变化时刷新本页";
    Stale: "The server or its store does not answer. This page shows the last known state. It refreshes when they answer again.", "服务器或其存储没有响应。本页显示的是最后一次的数据，恢复后会自动刷新。";
    SignIn: "Sign in", "登录";
    SignOut: "Sign out", "退出登录";
    SignInHint: "This server requires a token. Create one in its token file, the FILE of its --tokens option:", "此服务器需要令牌。请在它的令牌文件（--tokens 指定的 FILE）里创建一个：";
    SignInRights: "The right read shows pages. To change things, add the rights you need, for example --allow read,push,change: push for new jobs, change for existing jobs, lock for locks, admin for everything.", "read 权限只能查看。要操作，请加上相应的权限，例如 --allow read,push,change：push 用于提交任务，change 用于处理已有的任务，lock 用于锁，admin 包含全部。";
    Token: "Token", "令牌";
    NotSignedIn: "Not signed in", "未登录";
    TokenCannotRead: "This token lacks the right `read`, which the dashboard needs.", "此令牌没有 read 权限，控制台需要这个权限。";
    TokenUnknown: "The server does not know this token, or it has expired.", "服务器不认识此令牌，或者它已过期。";
    NotShown: "This cannot be shown", "无法显示";
    ChangedMeanwhile: "Someone else changed it since this page was loaded. The page now shows its current state. Check it before you repeat the action.", "页面加载之后，别人改过它。页面现在显示的是最新状态，请确认后再操作。";
    NextPage: "Next page", "下一页";
    Actions: "Actions", "操作";
    AsCommand: "As a command", "命令行写法";
    AsExample: "Example of a command", "命令行示例";
    WhatWasTyped: "What you entered", "你输入的内容";
    AsPushed: "As it was pushed", "提交时的原文";
    Back: "Back", "返回";
    // Below each page.
    ApiDocs: "HTTP API", "HTTP API 文档";
    // States.
    Scheduled: "Scheduled", "未到期";
    Ready: "Ready", "就绪";
    Running: "Running", "执行中";
    Succeeded: "Succeeded", "成功";
    Cancelled: "Cancelled", "已取消";
    // Properties of jobs and queues.
    Id: "ID", "编号";
    Queue: "Queue", "队列";
    Kind: "Kind", "类型";
    State: "State", "状态";
    Tag: "Tag", "标签";
    Tags: "Tags", "标签";
    Key: "Key", "唯一键";
    UntilStarted: "until it starts", "开始后释放";
    Origin: "Origin", "来源标识";
    Due: "Due", "到期时间";
    DueFrom: "Due from", "到期不早于";
    DueTo: "Due to", "到期不晚于";
    FirstDue: "First due", "最初到期";
    Created: "Pushed", "提交时间";
    Updated: "Last changed", "最后变更";
    Started: "Started", "开始时间";
    Finished: "Ended", "结束时间";
    Ended: "Ended", "结束时间";
    LeaseUntil: "Leased until", "租约到期";
    Lease: "Lease", "租约时长";
    Expires: "Expires after its due time", "到期后多久失效";
    Attempt: "Attempt", "尝试次数";
    Crashes: "Crashes", "崩溃次数";
    Releases: "Releases", "释放次数";
    Moves: "Moves to other queues", "移至其他队列的次数";
    OwnRule: "Own retry rule", "任务自己的重试规则";
    Crashed: "crashed", "崩溃";
    Priority: "Priority", "优先级";
    Delay: "Delay", "延时";
    RescheduleTo: "Reschedule: delay or time", "改期：延时或时间";
    Message: "Message", "错误信息";
    MessageOrPayload: "Message or payload", "错误信息或内容";
    Target: "Target", "投递目标";
    Trace: "Trace", "追踪";
    Meta: "Metadata", "元数据";
    Version: "Version", "版本";
    Payload: "Payload", "内容";
    Result: "Result", "结果";
    History: "Failed attempts", "失败的尝试";
    MoreBytes: "{} more bytes are not shown: read the job over the API.", "还有 {} 字节未显示，请通过 API 读取。";
    NoErrors: "No attempt has failed.", "没有失败过。";
    WhyNot: "Why it does not run", "为什么没有执行";
    NothingInTheWay: "Nothing holds it back. A worker gets it with its next request.", "一切就绪，下一个来取任务的 worker 会拿到它。";
    WhyNotDue: "It is not due yet.", "尚未到期。";
    WhyRunning: "A worker runs it. The worker may extend its lease.", "有 worker 正在执行，租约可能会延长。";
    WhyNextAttempt: "It waits for its next attempt. Attempts so far: {}.", "正在等待下一次尝试，已尝试 {} 次。";
    WhyPaused: "The queue is paused.", "队列已暂停。";
    WhyMaxRunning: "Running jobs of the queue: {}. Its max_running is {}.", "此队列有 {} 个任务正在执行，max_running 为 {}。";
    WhyRate: "The rate of the queue is used up.", "队列的速率已用完。";
    WhyTarget: "The target of the queue is overloaded or unavailable, so this server delivers nothing.", "此队列的投递目标过载或不可用，此服务器暂停投递。";
    WhyWorker: "Worker: {}.", "worker：{}。";
    WhyNoWorker: "No worker has asked this server for jobs of the queue since", "没有 worker 向此服务器取过此队列的任务，统计开始于";
    WhyOverflow: "The broker has no room for more jobs of the queue. The job waits in the ledger.", "Broker 放不下此队列更多的任务，该任务暂存在持久化存储中。";
    WhyNotLoaded: "The job is being loaded from the ledger.", "正在从持久化存储加载该任务。";
    WhyBacklog: "{} outcomes are not recorded yet, so this server hands out no jobs.", "{} 个结果尚未写入，此服务器暂不分发任务。";
    Life: "Life of the job", "任务经历";
    NextAttempt: "Next attempt", "下一次尝试";
    RetryPlan: "Retry plan", "重试计划";
    RetryPlanHint: "If each attempt failed as soon as it began, the next ones would begin:", "假设每次尝试一开始就失败，之后的尝试时间为：";
    NoMoreAttempts: "If its next attempt fails, it is not retried.", "如果下一次尝试失败，将不再重试。";
    CancelRequested: "Cancel requested", "已请求取消";
    JobTitle: "Job {}", "任务 {}";
    Time: "Time", "时间";
    What: "What happened", "发生了什么";
    Limited: "limited {}/{}", "已达上限 {}/{}";
    Full: "full", "已满";
    TargetDown: "target down", "投递目标不可用";
    OldestReady: "Oldest ready", "最早就绪";
    StartsAMinute: "Starts/min", "每分钟开始";
    LatenessP99: "Late (p99)", "延迟（p99）";
    ShowAllQueues: "Show all {} queues", "显示全部 {} 个队列";
    Pushed: "Pushed", "已提交";
    Paused: "paused", "已暂停";
    QueueIsPaused: "This queue is paused: nothing more is handed out.", "此队列已暂停，不再分发任务。";
    Until: "Until", "直到";
    Since: "Since", "自";
    Settings: "Settings", "设置";
    SettingsDefault: "All settings have their defaults.", "所有设置均为默认值。";
    SettingsHint: "Settings in JSON; a missing one has its default", "JSON 格式的设置，未写的使用默认值";
    SetHint: "An empty field has the default.", "留空则使用默认值。";
    SetMaxRunning: "Run at once, at most", "最多同时执行";
    SetRate: "Rate", "速率";
    SetMaxWaiting: "Wait at most", "最多等待任务数";
    SetWhenFull: "When full", "队列已满时";
    SetRetry: "Waits between attempts", "重试间隔";
    SetMaxAttempts: "Attempts, at most", "最多尝试次数";
    SetWhenExhausted: "After the last attempt", "最后一次尝试失败后";
    SetJitter: "Jitter, 0 to 1", "抖动，0 到 1";
    SetMaxAge: "Retry for, at most", "最长重试时间";
    SetMaxCrashes: "Crashes, at most", "最多崩溃次数";
    SetLease: "Lease", "租约时长";
    SetKeepSucceeded: "Keep succeeded jobs", "成功任务的保留时间";
    SetKeepFailed: "Keep failed jobs", "失败任务的保留时间";
    SetTarget: "Target: a URL, or JSON", "投递目标：URL 或 JSON";
    SettingsAsJson: "Settings as JSON", "JSON 格式的设置";
    SendTest: "Send a test", "发送测试任务";
    Cron: "Cron", "Cron 表达式";
    CronHint: "Minute, hour, day, month, weekday. A time matches if the day or the weekday does, when both are given.", "分 时 日 月 星期。同时指定日和星期时，满足其一即可。";
    TimeZone: "Time zone", "时区";
    OrEvery: "Or every", "或每隔";
    MissedRuns: "Missed runs", "错过的运行";
    MissedOnce: "are made up for by one", "补一次";
    MissedSkip: "are skipped", "跳过";
    OverlappingRun: "While the last job is live", "上一个任务未结束时";
    OverlapAllow: "push all the same", "照常提交";
    OverlapSkip: "push nothing", "不提交";
    SpreadRuns: "Spread", "错开";
    Preview: "Preview", "预览";
    Save: "Save", "保存";
    ScheduleAsJson: "As JSON", "JSON 格式";
    NewScheduleAsJson: "New schedule as JSON", "以 JSON 新建周期任务";
    Totals: "Totals", "总数";
    Unfinished: "Not finished", "未结束";
    RetriedByHand: "retried by hand, minus deleted", "手动重试（减去已删除）";
    DeletedLive: "deleted before their end, minus retried", "结束前被删除（减去手动重试）";
    Now: "now", "现在";
    InSpan: "in {}", "{}后";
    SpanAgo: "{} ago", "{}前";
    // Actions.
    PushJob: "Push a job", "提交任务";
    PushOptions: "Options (JSON)", "选项（JSON）";
    Pause: "Pause", "暂停";
    Resume: "Resume", "恢复";
    ForSpan: "For how long (empty: until it is resumed)", "暂停多久（留空：直到手动恢复）";
    EditSettings: "Edit settings", "修改设置";
    Purge: "Cancel all waiting jobs", "取消全部等待中的任务";
    PurgeWarning: "All scheduled and ready jobs of this queue will be cancelled. Each can be retried by hand as long as its record is kept.", "此队列中所有未到期和就绪的任务都会被取消。记录保留期间，可以逐个手动重试。";
    DeleteQueue: "Delete this queue", "删除此队列";
    DeleteQueueWarning: "This removes the queue with its settings, its counts and the records of its jobs. A job that is pushed later makes it anew.", "队列及其设置、计数和任务记录都将被永久删除。以后提交的任务会重新创建此队列。";
    DeleteQueueCounts: "Ended: {}. Waiting: {}. Running: {}.", "已结束：{}。等待中：{}。执行中：{}。";
    ByForce: "Although jobs wait or run, or a schedule pushes to it: waiting jobs are cancelled, and running ones are asked to stop", "强制：即使还有任务在等待或执行，或有周期任务向它提交；等待中的任务会被取消，执行中的任务会收到停止请求";
    Cancel: "Cancel", "取消任务";
    Retry: "Retry", "重试";
    RunAgain: "Run again", "再执行一次";
    RunAgainWarning: "The job has succeeded. Run it once more?", "任务已经成功。要再执行一次吗？";
    RetriesSucceeded: "Selected jobs that have succeeded would run once more.", "选中的任务里，已经成功的也会再执行一次。";
    RunNow: "Run now", "立即执行";
    Reschedule: "Reschedule", "改期";
    Edit: "Edit", "编辑";
    NotEditable: "This page cannot edit the payload: it is binary, long, or has characters that cannot be seen. Use the API.", "本页无法编辑此内容：它是二进制、太长，或含有不可见的字符。请使用 API。";
    PayloadNeedsPush: "To change the payload, you also need the right to push to this queue.", "要修改内容，还需要向此队列提交任务的权限。";
    Delete: "Delete", "删除";
    DeleteWarning: "This removes the job and its record.", "任务及其记录将被永久删除。";
    DeletesRecords: "This removes the jobs and their records.", "这些任务及其记录将被永久删除。";
    DeleteScheduleWarning: "This removes the schedule. Jobs that it has pushed stay.", "周期任务会被删除，它已提交的任务保留。";
    Release: "Release", "释放";
    ReleaseWarning: "The holder is not notified, and may still act on the protected resource. Anyone can then acquire the lock.", "持有者不会收到通知，可能仍在操作锁所保护的资源。之后任何人都可以获取此锁。";
    WithSelected: "With the selected jobs", "对选中的任务";
    WithAllFound: "With all jobs that the search finds", "对搜索到的全部任务";
    WouldAct: "{}: this is for {} jobs. Nothing has been done yet.", "{}：涉及 {} 个任务，尚未执行。";
    SelectAll: "Select all", "全选";
    Select: "Select", "选择";
    Search: "Search", "搜索";
    Filter: "Filter", "筛选";
    MoreFilters: "More filters", "更多筛选条件";
    Clear: "Clear", "清除";
    Any: "any", "任意";
    // Lists.
    NoQueues: "There are no queues yet. Pushing a job creates its queue.", "还没有队列。提交第一个任务时会自动创建。";
    NoJobs: "No jobs found.", "没有找到任务。";
    NoFailed: "No job has failed for good.", "没有最终失败的任务。";
    NoneOnThisPage: "Nothing found on this page; there may be more on the next.", "本页没有结果，下一页可能还有。";
    NoSuchQueue: "This queue has no jobs and no settings.", "此队列还没有任务，也没有设置。";
    NothingYet: "Nothing has been pushed yet. Push a first job, for example:", "还没有任务。提交第一个任务，例如：";
    NoLocks: "Nobody holds a lock.", "没有被持有的锁。";
    NoWorkers: "No worker has asked this server for jobs.", "还没有 worker 向此服务器取任务。";
    Worker: "Worker", "worker";
    Waits: "Waiting requests", "等待中的请求";
    Holds: "Leases", "租约";
    JobsHeld: "Jobs", "任务";
    FirstSeen: "First seen", "首次出现";
    LastSeen: "Last seen", "最近出现";
    ByMessage: "By message", "按错误信息分组";
    FailedJobs: "Failed jobs", "失败的任务";
    OfLatestFailed: "From the {} most recent failures of all queues, as of", "统计所有队列中最近失败的 {} 个任务，截至";
    NoSchedules: "There are no schedules yet.", "还没有周期任务。";
    PageOfQueues: "The first {} queues by name", "按名称排列的前 {} 个队列";
    BusiestQueues: "Busiest queues", "最忙的队列";
    Name: "Name", "名称";
    Owner: "Owner", "持有者";
    Fence: "Fence", "Fencing token";
    Ends: "Ends", "到期";
    WaitsForIt: "Waiting", "等待者";
    Timing: "Runs", "执行规则";
    NextRun: "Next run", "下次执行";
    NextRuns: "Next runs", "接下来的执行时间";
    NoNextRun: "It does not run again.", "不会再执行。";
    LastRun: "Last run", "上次执行";
    NeverRan: "It has not run yet.", "尚未执行。";
    EitherDay: "Either its day or its weekday is enough. A + before the weekday requires both.", "日期和星期满足其一就会执行。在星期前加 + 表示必须同时满足。";
    ScheduleIsPaused: "This schedule is paused. Runs during the pause are not made up for.", "此周期任务已暂停，暂停期间错过的执行不会补上。";
    ClockGap: "moved: the clock skips this time", "已顺延：时钟跳过该时刻";
    ClockFold: "the clock shows this time twice", "时钟会两次到达该时刻";
    NewSchedule: "New schedule", "新建周期任务";
    Schedule: "Schedule in JSON", "JSON 格式的周期任务";
    EventsHint: "The last 50 events, and new ones as they happen.", "最近 50 个事件，新事件发生时会显示在这里。";
    EventsPlain: "Show the stream of events as text", "以文本显示事件流";
    ComesDue: "What comes due", "即将到期";
    BeingCounted: "Jobs are being counted. Look again in a moment.", "正在统计任务，请稍后再看。";
    NextHour: "Within 1 hour", "1 小时内";
    NextDay: "1 hour to 1 day", "1 小时至 1 天";
    NextMonth: "1 to 30 days", "1 至 30 天";
    AlreadyDue: "Already due or running", "已到期或执行中";
    Later: "Later", "更晚";
    CountedAt: "Counted", "统计于";
    AsTable: "As a table", "以表格显示";
    NoneYet: "None", "暂无";
    OfLate: "Throughput and lateness", "吞吐量与延迟";
    LastHour: "last hour", "最近一小时";
    LastDay: "last day", "最近一天";
    CompletedPerStep: "Jobs completed", "完成的任务";
    LatenessPerStep: "How late jobs started: 99 % within", "任务开始执行的延迟：99 % 不超过";
    Lateness: "Lateness", "延迟";
    NotCountedApart: "This server counts this queue only together with others.", "此服务器未单独统计此队列。";
    OfThisServer: "On this server only, since", "仅此服务器的数据，统计开始于";
    // What needs attention.
    Colon: ": ", "：";
    NeedsAttention: "Needs attention", "需要处理";
    NothingWaits: "Nothing needs attention. No job has waited longer than {}.", "一切正常，没有任务等待超过 {}。";
    NotAllListed: "{} more are not listed.", "另有 {} 项未列出。";
    AttentionJobs: "Waiting jobs: {}.", "有 {} 个任务在等待。";
    AttentionTarget: "{} has taken no job for {}.", "{} 未接收任务，已持续 {}。";
    AttentionNoWorker: "Waiting jobs: {}. No worker asks this server. The oldest job has waited for {}.", "有 {} 个任务在等待，但没有 worker 来取。等待最久的已达 {}。";
    AttentionLate: "Waiting jobs: {}. The oldest has waited for {}.", "有 {} 个任务在等待。等待最久的已达 {}。";
    AttentionStarted: "Jobs started up to {} late within the last two minutes.", "最近两分钟内，任务开始执行最多晚了 {}。";
    AttentionLimit: "Its max_running of {} is reached.", "正在执行的任务已达 max_running 的 {} 个。";
    AttentionFull: "Its max_waiting of {} was reached.", "等待的任务已达 max_waiting 的 {} 个。";
    AttentionNoPlace: "New jobs that found no place within the last {}: {}.", "最近 {}内，有 {} 个新任务没有位置。";
    AttentionTargetSlow: "{} does not keep up.", "{} 处理不过来。";
    AttentionWorkersSlow: "Its workers do not keep up.", "worker 处理不过来。";
    AttentionFailed: "{} failed within the last hour: {}", "最近一小时内有 {} 个任务失败：{}";
    AttentionRun: "The last run failed: {} {}", "最近一次执行失败：{} {}";
    AttentionRefused: "The last run was refused: its job breaks a limit. Set the schedule again to see which.", "最近一次执行被拒绝：任务超出了限制。请重新保存该周期任务以查看原因。";
    AttentionPaused: "The queue is paused without an end.", "队列已暂停，没有结束时间。";
    AttentionPausedUntil: "The queue is paused until {}.", "队列已暂停，到 {} 为止。";
    AttentionPausedAgo: "Paused {} ago.", "暂停于 {}前。";
    AttentionPausedBy: "Paused by {}.", "操作者：{}。";
    RetryCount: "Retry {}", "重试（{}）";
    InLastHour: "Last hour", "最近一小时";
    FailedAt: "Failed at", "失败时间";
    RetryAll: "Retry all {}", "全部重试（{}）";
    ShowThem: "Show", "查看";
    HowToWork: "Start a worker, for example:", "启动一个 worker，例如：";
    // The health of the server.
    NotReady: "The server hands out no jobs.", "服务器目前不分发任务。";
    StillLoading: "The server is still loading jobs after its start: {} so far.", "服务器启动后仍在加载任务：已加载 {} 个。";
    TaskEnded: "A background task ended unexpectedly. The log says why. Restart the server.", "后台任务意外结束，原因见日志。请重启服务器。";
    BrokerUnavailable: "The broker does not answer, so no jobs are handed out. Check that it runs and can be reached.", "Broker 没有响应，因此不分发任务。请检查它是否在运行、网络是否可达。";
    BrokerFull: "The broker has no room for new jobs. Give it more memory, or let workers catch up.", "Broker 放不下新任务。请增加它的内存，或等 worker 处理掉一些。";
    CrashedJobs: "Jobs of crashed workers do not come back yet. The server keeps trying.", "崩溃的 worker 的任务暂时收不回来，服务器会继续尝试。";
    Recording: "Outcomes of jobs are not recorded yet. Check the ledger.", "任务的结果尚未写入持久化存储，请检查它是否正常。";
    Loading: "Jobs are not loaded. Check the ledger.", "任务没有加载，请检查持久化存储。";
    Holding: "The broker takes no jobs. Jobs that are due soon wait in the ledger.", "Broker 不接收任务，即将到期的任务暂存在持久化存储中。";
    Overflow: "Jobs that wait in the ledger for room in the broker are not loaded. Check the ledger.", "暂存的任务没有加载到 Broker，请检查持久化存储。";
    Comparing: "The server cannot check whether the broker still has all its jobs.", "服务器无法确认 Broker 是否仍持有全部任务。";
    Inbox: "Rows of the inbox wait to become jobs. Check the ledger.", "收件表（inbox）中的行尚未变成任务，请检查持久化存储。";
    Pruning: "Finished jobs past their retention are not removed. Check the ledger.", "超过保留期的已结束任务没有删除，请检查持久化存储。";
    ScheduleRuns: "A schedule cannot push its job.", "有周期任务无法提交任务。";
    SchedulesUnread: "The server cannot read the schedules.", "服务器无法读取周期任务。";
    Undelivered: "This server does not deliver the jobs of a queue with a target.", "此服务器不投递某个设有目标的队列的任务。";
    TokensUnread: "The file of tokens has changed and cannot be read. The tokens of before stay valid. Correct the file.", "令牌文件已更改但无法读取，之前的令牌继续有效。请改正该文件。";
    CertificateUnread: "The certificate or its key has changed and cannot be read. That of before stays in use.", "证书或其私钥已更改但无法读取，继续使用之前的证书。";
    WebhookKeysUnread: "The file of webhook keys has changed and cannot be read. The keys of before stay in use.", "webhook 密钥文件已更改但无法读取，继续使用之前的密钥。";
    QueueSettings: "The server cannot read settings that other servers changed.", "服务器无法读取其他服务器更改的队列设置。";
    StoreFull: "The store is full, so changes are refused. Make room.", "存储已满，修改被拒绝。请腾出空间。";
    StoreMoved: "The files of the store were moved, removed or replaced, so changes are refused. Put them back, or stop the server and restore them.", "存储文件被移动、删除或替换，修改被拒绝。请放回原处，或停止服务器后恢复。";
    StoreUnwritable: "The store cannot be written, so changes are refused. See the log.", "存储无法写入，修改被拒绝，原因见日志。";
    StoreDamaged: "The store is damaged, and jobs may be missing. Stop the server, then restore a backup or salvage the store.", "存储已损坏，可能缺少任务。请停止服务器，再恢复备份或抢救数据。";
    RecordsDroppedEarly: "Records of finished jobs are dropped early, because the store is nearly full. Make room, or keep them for less time.", "存储将满，已结束任务的记录会被提前删除。请腾出空间，或缩短保留期。";
    StoreEvicts: "Redis may evict jobs when its memory runs short. Set its maxmemory-policy to noeviction.", "Redis 内存不足时可能会淘汰任务。请将其 maxmemory-policy 设为 noeviction。";
    ClockApart: "The clocks of Redis and of this machine differ. Due times use the clock of Redis. Synchronize both with NTP.", "Redis 与本机的时钟不一致。到期时间以 Redis 的时钟为准，请用 NTP 同步两者。";
    Unknown: "Something else. See the log.", "其他原因，见日志。";
    Unrecorded: "{} outcomes wait to be recorded.", "{} 个结果等待写入。";
    // Outcomes of actions.
    Outcome: "{}: {}", "{}：{}";
    OutcomeCreated: "Pushed", "已提交";
    OutcomeKept: "Key conflict: the existing job was kept", "唯一键已被占用：保留原任务";
    OutcomeDropped: "Not pushed: the queue is full, and drops new jobs", "没有提交：队列已满，新任务被丢弃";
    OutcomeRepeated: "Already pushed: no new job", "此前已提交，没有重复提交";
    OutcomeCancelled: "Cancelled", "已取消";
    OutcomeCancelRequested: "Asked to stop", "已请求停止";
    OutcomeFinished: "Had ended before", "此前已结束";
    OutcomeRetried: "Retried", "已重试";
    OutcomeRun: "Due now", "立即到期";
    OutcomeRescheduled: "Rescheduled", "已改期";
    OutcomeDeleted: "Deleted", "已删除";
    OutcomeSaved: "Saved", "已保存";
    OutcomePaused: "Paused", "已暂停";
    OutcomeResumed: "Resumed", "已恢复";
    OutcomeReleased: "Released", "已释放";
    OutcomeChanged: "Changed by someone else meanwhile: skipped", "已被他人修改：未处理";
    OutcomeNotFound: "Not found", "未找到";
    OutcomeRunning: "Running: left alone", "执行中：未处理";
    OutcomeLive: "Not finished: skipped", "尚未结束：未处理";
    OutcomeNothing: "No job was found, so nothing was changed.", "没有找到任务，未做任何更改。";
    OutcomeRefused: "Refused", "被拒绝";
    OutcomeUnavailable: "The store was unavailable: look at the job before you repeat the action", "存储不可用：重试前请先查看任务";
    OutcomeNotTried: "Not tried", "未执行";
}

impl Text {
    pub(super) fn of_state(state: State) -> Self {
        match state {
            State::Scheduled => Self::Scheduled,
            State::Ready => Self::Ready,
            State::Running => Self::Running,
            State::Succeeded => Self::Succeeded,
            State::Failed => Self::Failed,
            State::Cancelled => Self::Cancelled,
        }
    }

    /// Why a job does not run.
    pub(super) fn of_reason(reason: &Reason) -> Self {
        match reason.code {
            ReasonCode::NotDue if reason.count.is_some() => Self::WhyNextAttempt,
            ReasonCode::NotDue => Self::WhyNotDue,
            ReasonCode::Paused => Self::WhyPaused,
            ReasonCode::MaxRunning => Self::WhyMaxRunning,
            ReasonCode::Rate => Self::WhyRate,
            ReasonCode::TargetBackingOff => Self::WhyTarget,
            ReasonCode::NoWorker => Self::WhyNoWorker,
            ReasonCode::Overflow => Self::WhyOverflow,
            ReasonCode::NotLoaded => Self::WhyNotLoaded,
            ReasonCode::Backlog => Self::WhyBacklog,
            ReasonCode::Running => Self::WhyRunning,
            ReasonCode::Finished => Self::Finished,
            ReasonCode::Unknown => Self::Unknown,
        }
    }

    /// The part that does not work.
    pub(super) fn of_degraded(code: DegradedCode) -> Self {
        match code {
            DegradedCode::TaskEnded => Self::TaskEnded,
            DegradedCode::BrokerUnavailable => Self::BrokerUnavailable,
            DegradedCode::BrokerFull => Self::BrokerFull,
            DegradedCode::CrashedJobs => Self::CrashedJobs,
            DegradedCode::Recording => Self::Recording,
            DegradedCode::Loading => Self::Loading,
            DegradedCode::Holding => Self::Holding,
            DegradedCode::Overflow => Self::Overflow,
            DegradedCode::Comparing => Self::Comparing,
            DegradedCode::Inbox => Self::Inbox,
            DegradedCode::Pruning => Self::Pruning,
            DegradedCode::ScheduleRuns => Self::ScheduleRuns,
            DegradedCode::Schedules => Self::SchedulesUnread,
            DegradedCode::QueueSettings => Self::QueueSettings,
            DegradedCode::Deliveries => Self::Undelivered,
            DegradedCode::Tokens => Self::TokensUnread,
            DegradedCode::Certificate => Self::CertificateUnread,
            DegradedCode::WebhookKeys => Self::WebhookKeysUnread,
            DegradedCode::StoreFull => Self::StoreFull,
            DegradedCode::StoreMoved => Self::StoreMoved,
            DegradedCode::StoreUnwritable => Self::StoreUnwritable,
            DegradedCode::StoreDamaged => Self::StoreDamaged,
            DegradedCode::RecordsDroppedEarly => Self::RecordsDroppedEarly,
            DegradedCode::StoreEvicts => Self::StoreEvicts,
            DegradedCode::Clock => Self::ClockApart,
            DegradedCode::Unknown => Self::Unknown,
        }
    }

    /// The outcome of an action, by the word or the code of the API.
    pub(super) fn of_outcome(word: &str) -> Option<Self> {
        Some(match word {
            "created" => Self::OutcomeCreated,
            "kept" | "replaced" => Self::OutcomeKept,
            "repeated" => Self::OutcomeRepeated,
            "dropped" => Self::OutcomeDropped,
            "cancelled" => Self::OutcomeCancelled,
            "cancel_requested" => Self::OutcomeCancelRequested,
            "already_finished" => Self::OutcomeFinished,
            "retried" => Self::OutcomeRetried,
            "run" => Self::OutcomeRun,
            "rescheduled" => Self::OutcomeRescheduled,
            "deleted" => Self::OutcomeDeleted,
            "saved" => Self::OutcomeSaved,
            "paused" => Self::OutcomePaused,
            "resumed" => Self::OutcomeResumed,
            "released" => Self::OutcomeReleased,
            "version_mismatch" => Self::OutcomeChanged,
            "not_found" => Self::OutcomeNotFound,
            "job_running" => Self::OutcomeRunning,
            "job_live" => Self::OutcomeLive,
            "store_unavailable" => Self::OutcomeUnavailable,
            "not_tried" => Self::OutcomeNotTried,
            word if word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_') => Self::OutcomeRefused,
            _ => return None,
        })
    }
}
