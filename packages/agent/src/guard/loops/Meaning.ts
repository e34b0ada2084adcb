/**
 * What words in a tool's result may mean: trouble, nothing found, something that has yet to happen.
 *
 * A word is a hash of it in lower case, so that a scan asks without making a string; a word may mean several things.
 * Pure.
 *
 * **What it does not do.** It knows a few dozen words, nearly all of them English: what goes round in another language
 * is seen by what it repeats.
 */
import * as Hash from "./Hash.ts"
import * as Volatile from "./Volatile.ts"
import * as WordTable from "./WordTable.ts"

/** The hash of a word in lower case, begun with {@link begin}. */
export const of = (word: string): number => {
  let h = begin()
  for (let i = 0; i < word.length; i++) h = next(h, word.charCodeAt(i))
  return h
}

export const begin = Hash.begin

/** With one more character. */
export const next = (hash: number, code: number): number => Hash.otherStep(hash, code | 32)

/** It tells of an error. */
export const trouble = 1
/** "0 failed", "no errors", "no results". */
export const none = 2
/** Something has yet to happen. */
export const waits = 4
/** The same, if the result says little else. */
export const waitsIfShort = 8
/** What may be found. */
export const thing = 16
/** Nothing, if it says little else. */
export const nothing = 32
/** They end like words for what is under way. */
export const settled = 64
/** As a field, `false` says that it was not done. */
export const success = 128
/** What follows stands for a content, and is another when that is another. */
const digestBit = 256
export const digest = digestBit
/** A number before it is a duration: `21 ms`, `3 minutes ago`. */
export const unit = 512

export const units: ReadonlyArray<string> =
  "ms s sec secs second seconds min mins minute minutes h hour hours day days ns us µs".split(" ")

const meanings = WordTable.make(2_048)
const means = (meaning: number, words: string): void => {
  for (const word of words.split(" ")) WordTable.add(meanings, of(word), meaning)
}
means(
  trouble,
  "error errors fail failed fails failing failure failures traceback exception fatal panic panicked denied refused " +
    "declined rejected forbidden unauthorized invalid unable cannot errno enoent err"
)
// The same in the languages that tools answer in most.
means(
  trouble,
  "fehler fehlgeschlagen abgelehnt verweigert ungültig erreur erreurs échec échoué refusé rejeté invalide " +
    "errores fallo fallido rechazado rechazada denegado inválido errore errori fallito rifiutato erro falha " +
    "rejeitado negado ошибка ошибки отказано エラー 失敗 拒否 错误 失败 拒绝 오류 실패"
)
means(none, "0 no not zero without any false")
means(
  none,
  "keine kein keinen keinerlei aucun aucune ningún ninguna ningun nessun nessuna nessuno nenhum nenhuma geen ingen"
)
means(
  waits,
  "pending queued in_progress in-progress inprogress waiting containercreating provisioning econnrefused econnreset " +
    "etimedout timeout unavailable overloaded throttled 429 502 503 504 eagain locked retry-after"
)
means(waitsIfShort, "scheduled submitted accepted refused busy retry")
means(
  thing,
  "message messages email emails mail mails event events ticket tickets contact contacts order orders " +
    "invoice invoices user users page pages match matches result results hit hits record records row rows item items file files found entries documents " +
    "response responses answer answers reply replies output issue issues problem problems vulnerability vulnerabilities"
)
means(
  thing,
  "treffer ergebnis ergebnisse einträge datensätze dateien nachrichten résultat résultats enregistrement " +
    "enregistrements résultado resultado resultados coincidencias registros risultato risultati corrispondenza " +
    "corrispondenze resultaat resultaten"
)
means(settled, "string missing warning existing following using")
means(nothing, "nothing none empty null undefined nil")
means(success, "ok success successful succeeded acquired granted accepted")
means(unit, units.join(" "))
means(digest, "sha sha1 sha256 sha512 md5 digest hash checksum image img screen screenshot")

/** Whether what follows a word of this meaning stands for a content. */
export const isDigest = (meaning: number): boolean => (meaning & digestBit) !== 0

const pending: ReadonlySet<number> = new Set(["pending", "waiting", "queued", "awaiting"].map(of))
/** Whether a word says of what follows that it has yet to happen: of `pending_review` the first. */
export const isPending = (word: number): boolean => pending.has(word)

const cursors: ReadonlySet<number> = new Set(["page", "pagina", "seite", "offset", "skip", "cursor"].map(of))
/** Whether a word names where in a list one is: `page=2`. */
export const isCursor = (word: number): boolean => cursors.has(word)

/** All that a word means, as bits. */
export const ofHash = (word: number): number => WordTable.get(meanings, word)

/** Names of fields whose values say nothing, as words of a text, by their hash. */
const names = WordTable.make(1_024)
const bits: Readonly<Record<Volatile.Where, number>> = { anywhere: 1, field: 2, result: 4, spoken: 8 }
for (const [name, where] of Volatile.names) {
  for (const joint of ["_", "-", ""]) WordTable.add(names, of(name.replaceAll("_", joint)), bits[where])
}

/** Where a word names a value that says nothing: 0 nowhere, or one of the bits of {@link bits}. */
export const naming = (word: number): number => WordTable.get(names, word)

export const { anywhere, result } = bits
