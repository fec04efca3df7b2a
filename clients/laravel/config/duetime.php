<?php

// The connection `duetime`. What your config/queue.php says of `connections.duetime` comes before it.
return [
    'driver' => 'duetime',
    // Several, separated by commas, are tried in turn.
    'server' => env('DUETIME_SERVER', 'http://127.0.0.1:7300'),
    'token' => env('DUETIME_TOKEN', ''),
    // Where jobs go that name no queue.
    'queue' => env('DUETIME_QUEUE', 'default'),
    // Seconds, 1 to 43,200. The lease is extended while a job runs, so it need not be longer than your jobs (as `retry_after` must).
    // It is how long the job of a killed worker waits, and three times how long a cancel takes to reach a running job.
    'lease' => 60,
    // Seconds for which a worker waits for a job in one request. Start it with --sleep=0.
    'block_for' => 5,
    // Jobs of up to 10 milliseconds are fetched up to so many at once, as many as run in 20 ms. What has not begun within a quarter of a second,
    // or when the worker ends, is given back. If the machine or the container is killed, an attempt of such a job counts that had not begun.
    // With 1, none is fetched before it runs; nor is a job in its last attempt, as all are with `--tries=1`.
    'prefetch' => 50,
    'after_commit' => false,
    // Seconds for each try of a call, and how often a push is tried.
    'timeout' => 5,
    'push_tries' => 2,
    // A file with your own certificate authority.
    'ca' => null,
];
