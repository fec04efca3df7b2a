<?php

declare(strict_types=1);

namespace Duetime;

use OpenTelemetry\API\Trace\Propagation\TraceContextPropagator;

/** Passes W3C trace contexts between OpenTelemetry, if the program has it, and jobs. */
final class Trace
{
    /** Whether the program has it: to look for a class that is not there takes longer than the rest of a push. */
    private static ?bool $isThere = null;

    /** The `traceparent` of what the program does now, or null. */
    public static function current(): ?string
    {
        if (!self::isThere()) {
            return null;
        }
        $carrier = [];
        TraceContextPropagator::getInstance()->inject($carrier);
        $trace = $carrier['traceparent'] ?? null;
        return \is_string($trace) ? $trace : null;
    }

    /**
     * Calls within this trace.
     *
     * @template T
     * @param \Closure(): T $call
     * @return T
     */
    public static function within(?string $trace, \Closure $call): mixed
    {
        if ($trace === null || !self::isThere()) {
            return $call();
        }
        $scope = TraceContextPropagator::getInstance()->extract(['traceparent' => $trace])->activate();
        try {
            return $call();
        } finally {
            $scope->detach();
        }
    }

    private static function isThere(): bool
    {
        return class_exists(TraceContextPropagator::class, false) || (self::$isThere ??= class_exists(TraceContextPropagator::class));
    }
}
