<?php

// Handlers for bin/duetime-work: `duetime-work --queues orders handlers.php`.

use Duetime\{Fatal, RetryAfter, RunningJob};

final class CancelOrder
{
    public function __construct(public readonly int $order)
    {
    }
}

return [
    'order.cancel' => function (RunningJob $job): array {
        $order = $job->as(CancelOrder::class); // fails for good if the payload has no number `order`
        if ($order->order <= 0) {
            throw new Fatal('there is no such order');
        }
        echo "order {$order->order} is cancelled\n";
        return ['cancelled' => $order->order]; // the job's result
    },
    'report' => function (RunningJob $job): void {
        for ($percent = 0; $percent < 100; $percent += 10) {
            $job->stopIfCancelled();
            $job->progress($percent);
        }
    },
    'mail' => function (RunningJob $job): void {
        throw new RetryAfter('5m', 'the mail server is busy');
    },
];
