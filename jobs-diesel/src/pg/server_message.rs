//! The message of a server that ended a connection. The server sends it while no statement is running: a session was
//! idle in its transaction for too long, or an administrator ended it. The next statement learns only that the
//! connection is closed.

use diesel::result::{DatabaseErrorKind, Error as DieselError};
use diesel_async::AsyncPgConnection;
use diesel_async::pooled_connection::PoolableConnection as _;
use diesel_jobs_core::JobError;
use diesel_jobs_core::storage::Interruption;
use futures_util::{FutureExt as _, StreamExt as _};

/// The text of that message, if the server ended this connection and the message was not read yet.
pub(crate) fn of(conn: &mut AsyncPgConnection) -> Option<String> {
    if !conn.is_broken() {
        return None;
    }
    let mut unasked = std::pin::pin!(conn.notifications_stream());
    while let Some(Some(said)) = unasked.next().now_or_never() {
        if let Err(DieselError::DatabaseError(_, info)) = said {
            return Some(info.message().to_owned());
        }
    }
    None
}

/// Parts of the messages with which the server ends a session that has kept a transaction open for too long, in English
/// and in the languages of PostgreSQL 15, 17 and 18.
const TIMEOUTS: [&str; 25] = [
    "terminating connection due to idle-in-transaction timeout",
    "terminating connection due to transaction timeout",
    "Zeitüberschreitung in inaktiver Transaktion",
    "délai d'inactivité en transaction",
    "timeout di inattività durante una transazione",
    "トランザクション中アイドルタイムアウト",
    "idle-in-transaction 시간 초과",
    "тайм-аута простоя в транзакции",
    "grund av idle-in-transaction-timeout",
    "тайм-аут бездіяльності в транзакції",
    "空载事务超时",
    "事务内空闲超时",
    "交易中閒置逾時",
    "przekroczenia czasu bezczynności podczas transakcji",
    "tempo limite de inatividade esgotado na transação",
    "Zeitüberschreitung in Transaktion",
    "tiempo de espera para transacciones",
    "トランザクションタイムアウト",
    "ტრანზაქციის მოლოდინის ვადის",
    "(transaction_timeout) 초과",
    "тайм-аута транзакции",
    "grund av transaktionstimeout",
    "тайм-аут транзакції",
    "由于事务超时",
    "由於交易逾時",
];

/// Parts of the messages with which the server ends a session when an administrator asks for it, or stops the server.
const ADMINISTRATOR: [&str; 18] = [
    "terminating connection due to administrator command",
    "aufgrund von Anweisung des Administrators",
    "debido a una orden del administrador",
    "suite à la demande de l'administrateur",
    "su comando dell'amministratore",
    "管理者コマンドにより接続を終了",
    "ადმინისტრატორის ბრძანების გამო",
    "관리자 요청에 의해서 연결을",
    "по команде администратора",
    "grund av ett administratörskommando",
    "по команді адміністратора",
    "由于管理员命令中断联接",
    "由于管理员命令，正在终止连接",
    "因管理員命令",
    "karena perintah administrator",
    "na skutek polecenia administratora",
    "devido a um comando do administrador",
    "yönetici talimatı doğrultusunda",
];

/// The interruption that this error is.
pub(crate) fn interruption(error: JobError, may_have_committed: bool) -> Interruption {
    let by_administrator = error.causes().any(|cause| says(&ADMINISTRATOR, &cause.to_string()));
    Interruption { error, may_have_committed, by_administrator }
}

/// Whether the server has ended the session because the handler had kept its transaction open for too long.
pub(crate) fn is_timeout(error: &JobError) -> bool {
    error.causes().any(|cause| says_timeout(&cause.to_string()))
}

pub(crate) fn says_timeout(text: &str) -> bool {
    says(&TIMEOUTS, text)
}

fn says(parts: &[&str], text: &str) -> bool {
    parts.iter().any(|part| text.contains(part))
}

/// Adds the message to the error of a handler whose connection the server ended.
pub(crate) fn added_to_failure(error: JobError, conn: &mut AsyncPgConnection) -> JobError {
    match of(conn) {
        Some(text) => error.noted(format!("the server ended the connection: {text}")),
        None => error,
    }
}

/// Adds the reason to the error of a statement that found its connection closed.
pub(crate) fn added_to(error: DieselError, conn: &mut AsyncPgConnection) -> DieselError {
    let DieselError::DatabaseError(
        kind @ (DatabaseErrorKind::ClosedConnection | DatabaseErrorKind::UnableToSendCommand),
        info,
    ) = error
    else {
        return error;
    };
    match of(conn) {
        Some(word) => DieselError::DatabaseError(kind, Box::new(format!("{}: {word}", info.message()))),
        None => DieselError::DatabaseError(kind, info),
    }
}
