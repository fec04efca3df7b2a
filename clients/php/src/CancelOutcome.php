<?php

declare(strict_types=1);

namespace Duetime;

/** What a cancel of one job did. */
enum CancelOutcome: string
{
    /** It was waiting, and never runs. */
    case Cancelled = 'cancelled';
    /** It is running. Its worker is asked to stop; if it completes the job anyway, the job has succeeded. */
    case Requested = 'cancel_requested';
    /** It had finished before. */
    case AlreadyFinished = 'already_finished';
    /** No live job has this key. */
    case None = 'none';
}
