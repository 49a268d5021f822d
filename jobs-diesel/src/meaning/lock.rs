//! Which messages say that a lock of PostgreSQL was not available.

/// Parts of the messages that a lock could not be obtained, and that it was not within the `lock_timeout`, in English
/// and in the languages of PostgreSQL 15, 17 and 18. Nothing else shows it. No other message has these parts.
const LOCKS: [&str; 41] = [
    "could not obtain lock on",
    "canceling statement due to lock timeout",
    "konnte Sperre für ",
    "Zeitüberschreitung einer Sperre",
    "no se pudo bloquear un candado en la ",
    "el tiempo de espera de candados",
    "no se pudo bloquear un “lock” en la ",
    "el tiempo de espera de “locks”",
    "n'a pas pu obtenir un verrou sur la relation",
    "délai écoulé pour l'obtention des verrous",
    "tidak mendapatkan kunci pada ",
    "tidak mendapatkan 'lock' pada ",
    "karena kunci kehabisan waktu tunggu",
    "lock di riga nella relazione",
    "lock della relazione",
    "a causa di timeout di lock",
    "ロックを取得できませんでした",
    "ロックのタイムアウトのため",
    "დაბლოკვის შეცდომა",
    "ბლოკის მიღების შეცდომა",
    "ბლოკის მოლოდინის ვადის",
    "릴레이션의 잠금 정보를 구할 수 없음",
    "잠금 대기 시간 초과",
    "nie można nałożyć blokady na ",
    "z powodu przekroczenia czasu blokady",
    "não foi possível obter bloqueio na ",
    "tempo de espera (timeout) do bloqueio",
    "не удалось получить блокировку ",
    "из-за тайм-аута блокировки",
    "kunde inte låsa rad i relationen",
    "kunde inte ta lås på relationen",
    "på grund av lås-timeout",
    "satır için lock alınamadı",
    "tablosu için kilit alınamadı",
    "не вдалося отримати блокування ",
    "через тайм-аут блокування",
    "上获得锁",
    "由于锁超时",
    "无法获取关系 ",
    "無法取得關聯 ",
    "由於鎖定逾時",
];

pub(super) fn is_about_a_lock(text: &str) -> bool {
    LOCKS.iter().any(|part| text.contains(part))
}
