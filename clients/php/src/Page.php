<?php

declare(strict_types=1);

namespace Duetime;

/** Lists that the server gives in pages. */
final class Page
{
    /**
     * @internal
     * @return \Generator<int, array<mixed>>
     */
    public static function all(Transport $transport, string $path, string $name): \Generator
    {
        $cursor = null;
        do {
            $answer = $transport->call('GET', $path . '?limit=100' . ($cursor === null ? '' : '&cursor=' . rawurlencode($cursor)));
            yield from $answer->list($name);
            $cursor = $answer->fields['next_cursor'] ?? null;
        } while (\is_string($cursor));
    }
}
