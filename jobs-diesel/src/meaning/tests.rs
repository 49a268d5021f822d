use super::*;

/// An error as PostgreSQL makes it.
#[derive(Default)]
struct Said {
    message: &'static str,
    details: Option<&'static str>,
    hint: Option<&'static str>,
    position: Option<i32>,
}

impl DatabaseErrorInformation for Said {
    fn message(&self) -> &str {
        self.message
    }
    fn details(&self) -> Option<&str> {
        self.details
    }
    fn hint(&self) -> Option<&str> {
        self.hint
    }
    fn table_name(&self) -> Option<&str> {
        None
    }
    fn column_name(&self) -> Option<&str> {
        None
    }
    fn constraint_name(&self) -> Option<&str> {
        None
    }
    fn statement_position(&self) -> Option<i32> {
        self.position
    }
}

fn meaning(said: Said) -> Meaning {
    Meaning::of(&Error::DatabaseError(DatabaseErrorKind::Unknown, Box::new(said)))
}

/// The messages are those of PostgreSQL 15, 17 and 18.
#[test]
fn an_error_means_the_same_in_every_language() {
    let parsed = |message| meaning(Said { message, position: Some(13), ..Said::default() });
    let executed = |message| meaning(Said { message, ..Said::default() });
    for message in [
        "relation \"jobs.ready\" does not exist",
        "Relation »jobs.ready« existiert nicht",
        "la relation « jobs.ready » n'existe pas",
        "no existe la relación «jobs.ready»",
        "リレーション\"jobs.ready\"は存在しません",
        "отношение \"jobs.ready\" не существует",
        "relasi « jobs.ready » tidak ada",
        "\"jobs.ready\" nesnesi mevcut değil",
        "relacja \"jobs.ready\" nie istnieje",
        "schema \"jobs\" does not exist",
        "Schema »jobs« existiert nicht",
    ] {
        assert_eq!(parsed(message), Meaning::NoTables, "{message}");
    }
    for message in ["permission denied for schema jobs", "keine Berechtigung für Schema jobs", "对模式 jobs 权限不够"]
    {
        assert_eq!(parsed(message), Meaning::NoPrivilege, "{message}");
    }
    for message in [
        "permission denied for table ready",
        "keine Berechtigung für Tabelle ready",
        "permiso denegado a la tabla ready",
        "permesso negato per la tabella ready",
        "テーブル ready へのアクセスが拒否されました",
        "ready 테이블에 대한 접근 권한 없음",
        "droit refusé pour la séquence job_id",
        "ijin ditolak untuk 'sequence' job_id",
        "odmowa dostępu do sekwencji job_id",
        "permissão negada para tabela ready",
        "ready tablosuna erişim engellendi",
        "對資料表 ready 的權限不足",
    ] {
        assert_eq!(executed(message), Meaning::NoPrivilege, "{message}");
    }
    for message in [
        "prepared statement \"s7\" already exists",
        "vorbereitete Anweisung »__diesel_stmt_0« existiert nicht",
        "persiapan pernyataan « s7 » sudah ada",
        "预备语句 \"s7\" 不存在",
        "bind message supplies 0 parameters, but prepared statement \"s7\" requires 1",
        ANOTHER_STATEMENT,
    ] {
        assert_eq!(executed(message), Meaning::MixedUp, "{message}");
    }
    for message in [
        "out of shared memory",
        "could not extend file \"base/5/16402\": Disk quota exceeded",
        "storniere Anfrage wegen Zeitüberschreitung der Anfrage",
        "annulation de la requête à la demande de l'utilisateur",
        "не удалось увеличить файл \"base/5/16402\": На устройстве не осталось свободного места",
        "공유 메모리 부족",
        "内存用尽",
        "pembatalan perintah karena perintah kehabisan waktu tunggu",
        "kehabisan memori 'shared'",
        "anulowano polecenie na skutek żądania użytkownika",
        "nie można rozszerzyć pliku \"base/5/16402\": Brak miejsca na urządzeniu",
        "cancelando o comando devido a um pedido do usuário",
        "não foi possível estender o arquivo \"base/5/16402\": Não há espaço disponível no dispositivo",
        "sorgu zaman aşımına uğradı ve iptal edildi",
        "shared memory yetersiz",
        "由于用户请求，正在取消语句",
        "因為陳述式逾時，正在取消陳述式",
        "konnte Datei »base/5/16402« nicht mit FileFallocate() erweitern: Auf dem Gerät ist kein Speicherplatz mehr",
        "ファイル\"base/5/16402\"をFileFallocate()で拡張できませんでした: ",
        "복구 작업 중 충돌이 발생해 작업을 중지합니다.",
    ] {
        assert_eq!(executed(message), Meaning::Transient, "{message}");
    }
    let details = "Prozess 7 wartet auf ShareLock-Sperre auf Transaktion 811; blockiert von Prozess 9.\n\
        Prozess 9 wartet auf AccessExclusiveLock-Sperre auf Relation 16402 der Datenbank 5; blockiert von Prozess 7.";
    let message = "Verklemmung (Deadlock) entdeckt";
    assert_eq!(meaning(Said { message, details: Some(details), ..Said::default() }), Meaning::Conflict);
}

#[test]
fn errors_of_the_application_mean_nothing_to_us() {
    for message in ["the order is not ready", "Spalte »jobs« existiert nicht", "type \"s\" does not exist"] {
        assert_eq!(meaning(Said { message, ..Said::default() }), Meaning::Other, "{message}");
    }
    let parsed = |message, hint| meaning(Said { message, hint, position: Some(3), ..Said::default() });
    assert_eq!(parsed("Relation »orders« existiert nicht", None), Meaning::Other);
    assert_eq!(parsed("Funktion jobs.enqueue(text) existiert nicht", Some("Keine Funktion ..")), Meaning::Other);
    assert_eq!(parsed("Relation »s7« existiert nicht", None), Meaning::Other);
    let details = Some("one line with 1 ShareLock\nand one without");
    assert_eq!(meaning(Said { message: "x", details, ..Said::default() }), Meaning::Other);
}
