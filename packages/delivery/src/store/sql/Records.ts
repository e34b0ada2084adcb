/** Rows of the tables as the database gives and takes them. */
import * as Letter from "../DeadLetter.ts"
import type { DeadLetter, NewDeadLetter } from "../DeadLetter.ts"
import type { NewRow, Row } from "../DeliveryStore.ts"

export interface OutboxRecord {
  readonly seq: number | string
  readonly id: string
  readonly subject: string
  readonly body: Uint8Array
  readonly headers: string
  readonly broker_id: string
  readonly bytes: number | string
  readonly born: number | string
  readonly rejections: number | string
  readonly refusal: string
}

export interface DeadRecord {
  readonly num: number | string
  readonly letter: string
  readonly id: string
  readonly source: string
  readonly subject: string
  readonly body: Uint8Array
  readonly headers: string
  readonly reason: Letter.Reason
  readonly detail: string
  readonly attempts: number | string
  readonly died: number | string
  readonly replays: number | string
  readonly state: "dead" | "replayed"
  readonly history: string
}

/** PostgreSQL gives a bigint as a text. */
export const rowOf = (record: OutboxRecord): Row => ({
  seq: Number(record.seq),
  id: record.id,
  subject: record.subject,
  body: record.body,
  headers: JSON.parse(record.headers),
  brokerId: record.broker_id,
  bytes: Number(record.bytes),
  at: Number(record.born),
  rejections: Number(record.rejections),
  refusal: record.refusal
})

export const letterOf = (record: DeadRecord): DeadLetter => ({
  number: Number(record.num),
  key: record.letter,
  id: record.id,
  source: record.source,
  subject: record.subject,
  body: record.body,
  headers: JSON.parse(record.headers),
  reason: record.reason,
  detail: record.detail,
  attempts: Number(record.attempts),
  at: Number(record.died),
  replays: Number(record.replays),
  state: record.state,
  history: JSON.parse(record.history)
})

export const recordOf = (publisher: string, row: NewRow) => ({
  id: row.id,
  publisher,
  subject: row.subject,
  body: row.body,
  headers: JSON.stringify(row.headers),
  broker_id: row.brokerId,
  bytes: row.bytes,
  born: row.at,
  rejections: row.rejections,
  refusal: row.refusal.slice(0, maxDetail)
})

/** A letter as a row; `before` is the same letter from an earlier death, whose history goes on. */
export const deadRecord = (letter: NewDeadLetter, before: DeadLetter | undefined) => ({
  letter: letter.key,
  id: letter.id,
  source: letter.source,
  subject: letter.subject,
  body: letter.body,
  headers: JSON.stringify(letter.headers),
  reason: letter.reason,
  detail: letter.detail.slice(0, maxDetail),
  attempts: letter.attempts,
  died: letter.at,
  replays: before?.replays ?? 0,
  state: "dead",
  history: JSON.stringify(
    Letter.append(before?.history ?? [], {
      at: letter.at,
      what: "died",
      reason: letter.reason,
      detail: letter.detail.slice(0, maxDetail)
    })
  )
})
/** Longest detail that is kept, in characters. */
export const maxDetail = 1_000
