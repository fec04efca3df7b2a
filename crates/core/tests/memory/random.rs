//! Random operations on the memory broker, checked against a plain model.

use super::world::World;
use duetime_core::testing::fixtures::T0;
use proptest::collection::vec;
use proptest::option::of as some;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

/// One operation; numbers that name a thing are taken modulo how many there are.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Push {
        queue: usize,
        priority: u32,
        due_in: i64,
        key: Option<u8>,
        until_started: bool,
        expires_ms: Option<u64>,
    },
    Reserve {
        queues: Vec<usize>,
        limit: usize,
        window: Option<(i64, i64)>,
        lease_ms: Option<u64>,
        request: Option<u8>,
        take: bool,
    },
    Named {
        jobs: Vec<usize>,
        right_version: bool,
        take: bool,
    },
    Settle {
        receipt: usize,
        how: How,
    },
    Extend {
        receipt: usize,
        lease_ms: Option<u64>,
    },
    Edit {
        job: usize,
        what: What,
        right_version: Option<bool>,
    },
    LedgerEdit {
        edit: usize,
    },
    Sweep {
        limit: usize,
    },
    Record {
        entry: usize,
    },
    Forget {
        batch: usize,
    },
    Read {
        job: usize,
    },
    Put {
        read: usize,
    },
    Expired {
        limit: usize,
        acts: bool,
    },
    Limit {
        queue: usize,
        paused: bool,
        max_running: Option<u32>,
    },
    Pass {
        ms: u64,
    },
    Step {
        ms: i64,
    },
    Restart,
}

/// The end of a lease.
#[derive(Clone, Copy, Debug)]
pub(crate) enum How {
    Success,
    Final,
    Drop,
    Move,
    Retry(u64),
    Release(u64),
}

/// The change that an edit makes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    Cancel,
    Delete,
    Due(i64),
    Payload(u8),
    Expire,
    Retry,
}

fn ops() -> impl Strategy<Value = Op> {
    let which = 0..1_000_000_usize;
    let ms = || prop_oneof![Just(0), 1..50_u64, 1..20_000_u64];
    let offset = || prop_oneof![-5_000..1_i64, 0..20_000_i64, 0..200_000_i64];
    let how = prop_oneof![
        4 => Just(How::Success),
        1 => Just(How::Final),
        1 => Just(How::Drop),
        1 => Just(How::Move),
        2 => ms().prop_map(How::Retry),
        2 => ms().prop_map(How::Release),
    ];
    let what = prop_oneof![
        3 => Just(What::Cancel),
        1 => Just(What::Delete),
        3 => offset().prop_map(What::Due),
        2 => (0..9_u8).prop_map(What::Payload),
        1 => Just(What::Expire),
        1 => Just(What::Retry),
    ];
    let push = (0..3_usize, 0..3_u32, offset(), some(0..2_u8), any::<bool>(), some(0..9_000_u64)).prop_map(
        |(queue, priority, due_in, key, until_started, expires_ms)| Op::Push {
            queue,
            priority,
            due_in,
            key,
            until_started,
            expires_ms,
        },
    );
    let window = || some((-20_000..0_i64, -10_000..100_i64));
    let reserve =
        (vec(0..3_usize, 1..4), 0..5_usize, window(), some(1..20_000_u64), some(0..3_u8), prop::bool::weighted(0.2))
            .prop_map(|(queues, limit, window, lease_ms, request, take)| Op::Reserve {
                queues,
                limit,
                window,
                lease_ms,
                request,
                take,
            });
    let named = (vec(which.clone(), 1..3), prop::bool::weighted(0.8), any::<bool>())
        .prop_map(|(jobs, right_version, take)| Op::Named { jobs, right_version, take });
    let edit = (which.clone(), what, some(prop::bool::weighted(0.8))).prop_map(|(job, what, right_version)| Op::Edit {
        job,
        what,
        right_version,
    });
    prop_oneof![
        12 => push,
        12 => reserve,
        2 => named,
        10 => (which.clone(), how).prop_map(|(receipt, how)| Op::Settle { receipt, how }),
        3 => (which.clone(), some(1..20_000_u64)).prop_map(|(receipt, lease_ms)| Op::Extend { receipt, lease_ms }),
        8 => edit,
        6 => which.clone().prop_map(|edit| Op::LedgerEdit { edit }),
        3 => (0..5_usize).prop_map(|limit| Op::Sweep { limit }),
        6 => which.clone().prop_map(|entry| Op::Record { entry }),
        6 => which.clone().prop_map(|batch| Op::Forget { batch }),
        8 => which.clone().prop_map(|job| Op::Read { job }),
        8 => which.prop_map(|read| Op::Put { read }),
        4 => (0..4_usize, any::<bool>()).prop_map(|(limit, acts)| Op::Expired { limit, acts }),
        3 => (0..3_usize, any::<bool>(), some(1..4_u32))
            .prop_map(|(queue, paused, max_running)| Op::Limit { queue, paused, max_running }),
        10 => ms().prop_map(|ms| Op::Pass { ms }),
        1 => prop_oneof![-20_000..20_000_i64, Just(-3_600_000), Just(3_600_000)].prop_map(|ms| Op::Step { ms }),
        1 => Just(Op::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        max_shrink_iters: 20_000,
        ..ProptestConfig::default()
    })]

    /// For any operations in any order, the broker answers as the model does.
    #[test]
    fn it_does_as_the_model_does(ops in vec(ops(), 1..250)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut world = World::new();
            assert_eq!(world.now(), T0);
            for op in ops {
                world.act(op).await;
                world.check().await;
            }
            world.finish().await;
        });
    }
}
