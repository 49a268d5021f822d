//! Which messages say that the same statement may succeed later. Where the session has ended with the message, the
//! message is not read (`pg/ended.rs`).

/// What a server says when it starts, stops or is full, or when it cancels a statement, what a client says that has
/// lost its connection, and what SQLite says.
const ENGLISH: [&str; 15] = [
    "terminating connection",
    "the database system is",
    "connection closed",
    "connection reset",
    "error communicating with the server",
    "server closed the connection",
    "canceling statement due to",
    "database is locked",
    "too many clients",
    "remaining connection slots",
    "no space left on device",
    "disk quota exceeded",
    "could not extend file",
    "out of memory",
    "out of shared memory",
];

/// What a server says in the languages of PostgreSQL 15 when it cancels a statement (57014), or has no memory (53200)
/// or no room on its disk (53100). ASCII letters are in lower case. The name of the setting is the same in all
/// languages (53400). Messages about a full device are those of the C library.
const TRANSLATED: [&str; 55] = [
    "temp_file_limit",
    "storniere anfrage wegen ",
    "speicher aufgebraucht",
    "shared memory aufgebraucht",
    " nicht erweitern: ",
    "kein speicherplatz mehr",
    "cancelando la sentencia debido a ",
    "memoria agotada",
    "memoria compartida agotada",
    "no se pudo extender el archivo",
    "no queda espacio en el dispositivo",
    "annulation de la requête à ",
    "mémoire épuisée",
    "mémoire partagée épuisée",
    "n'a pas pu étendre le fichier",
    "aucun espace disponible sur",
    "annullamento dell'istruzione ",
    "memoria esaurita",
    "memoria condivisa esaurita",
    "estendere il file",
    "spazio esaurito sul device",
    "ステートメントのタイムアウトのため",
    "ユーザーからの要求により文をキャンセル",
    "メモリ不足です",
    "共有メモリが足りません",
    "を拡張できませんでした",
    "空き領域がありません",
    "არასაკმარისი მეხსიერება",
    "არასაკმარისი გაზიარებული მეხსიერება",
    "ფაილის გაფართოების შეცდომა",
    "명령실행시간 초과로 작업을 취소",
    "사용자 요청에 의해 작업을 취소",
    "메모리 부족",
    "파일을 확장할 수 없음",
    "남은 공간이 없음",
    "выполнение оператора отменено ",
    "нехватка памяти",
    "нехватка разделяемой памяти",
    "не удалось увеличить файл",
    "не осталось свободного места",
    "avbryter sats på ",
    "slut på minne",
    "slut på delat minne",
    "kunde inte utöka fil",
    "enheten är full",
    "виконання оператора скасовано ",
    "недостатньо пам'яті",
    "нестача спільної пам'яті",
    "не вдалося розширити файл",
    "недостатньо місця на пристрої",
    "由于语句执行超时",
    "由于用户请求而正在取消查询",
    "内存用尽",
    "无法扩展文件",
    "设备上没有空间",
];

pub(crate) fn is_transient(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    ENGLISH.iter().chain(&TRANSLATED).any(|part| lower.contains(part))
}
