<?php

declare(strict_types=1);

namespace Duetime;

use Duetime\Error\Invalid;

/** Reads the forms in which a program gives a duration or an instant, and writes them as the server does: `"250ms"`, `"1h30m"`. */
final class Duration
{
    /**
     * The server's text of a duration. Text is passed on as it is, so that the server judges it. Numbers are seconds;
     * parts of a millisecond are rounded up, so that nothing is early. Months and years count from now.
     *
     * @throws Invalid if it is negative or not finite
     */
    public static function text(string|int|float|\DateInterval $duration, string $field = 'delay'): string
    {
        if (\is_string($duration)) {
            return $duration;
        }
        if (\is_int($duration) && $duration >= 0) {
            return $duration . 's';
        }
        return self::milliseconds($duration, $field) . 'ms';
    }

    /** @throws Invalid if it is negative, not finite, or text that is not a duration */
    public static function milliseconds(string|int|float|\DateInterval $duration, string $field = 'delay'): int
    {
        if (\is_string($duration)) {
            return self::parse($duration, $field);
        }
        if ($duration instanceof \DateInterval) {
            $now = new \DateTimeImmutable();
            $then = $now->add($duration);
            $duration = ($then->getTimestamp() - $now->getTimestamp())
                + ((int) $then->format('u') - (int) $now->format('u')) / 1e6;
        }
        if (!is_finite($duration) || $duration < 0) {
            throw Invalid::field($field, 'a duration of 0 or more seconds', (string) $duration);
        }
        // The rounding to whole microseconds takes the error of binary fractions away before the milliseconds are rounded up.
        return (int) ceil(round($duration * 1e6) / 1e3);
    }

    /** As `milliseconds`, in seconds. */
    public static function seconds(string|int|float|\DateInterval $duration, string $field = 'delay'): float
    {
        return self::milliseconds($duration, $field) / 1000;
    }

    /** RFC 3339 to the millisecond, as the server reads instants. */
    public static function instant(\DateTimeInterface|string $instant): string
    {
        return \is_string($instant) ? $instant : $instant->format('Y-m-d\TH:i:s.vP');
    }

    /** An instant of the server. PHP takes ten times as long to look up the zone `Z`. */
    public static function when(string $instant): \DateTimeImmutable
    {
        return new \DateTimeImmutable(str_replace('Z', '+00:00', $instant));
    }

    private static function parse(string $text, string $field): int
    {
        $pattern = '/^(?:(\d{1,4})d)?(?:(\d{1,7})h)?(?:(\d{1,8})m(?!s))?(?:(\d{1,9})s)?(?:(\d{1,12})ms)?$/';
        if ($text === '' || preg_match($pattern, $text, $parts) !== 1) {
            throw Invalid::field($field, 'a duration such as "250ms", "30s", "1h30m" or "7d"', json_encode($text) ?: $text);
        }
        $total = 0;
        foreach ([86_400_000, 3_600_000, 60_000, 1_000, 1] as $at => $unit) {
            $total += (int) ($parts[$at + 1] ?? 0) * $unit;
        }
        return $total;
    }
}
