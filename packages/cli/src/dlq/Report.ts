/** Dead letters for people and as JSON. A body is never part of a list. Pure. */
import type { DeadLetter } from "@outlast/delivery"

/** What a list says of a letter. */
export const summary = (letter: DeadLetter) => ({
  number: letter.number,
  id: letter.id,
  subject: letter.subject,
  reason: letter.reason,
  detail: letter.detail,
  source: letter.source,
  attempts: letter.attempts,
  died: new Date(letter.at).toISOString(),
  state: letter.state,
  replays: letter.replays,
  bytes: letter.body.byteLength
})

export const table = (letters: ReadonlyArray<DeadLetter>): ReadonlyArray<string> => {
  const rows = letters.map((letter) => [
    String(letter.number),
    new Date(letter.at).toISOString(),
    letter.state === "dead" ? letter.reason : `${letter.reason}, replayed`,
    plain(letter.source),
    plain(letter.subject),
    plain(letter.id)
  ])
  const all = [["number", "died", "reason", "source", "subject", "event"], ...rows]
  const widths = (all[0] ?? []).map((_, column) =>
    Math.max(...all.map((cells) => cells[column]?.length ?? 0))
  )
  return all.map((cells) =>
    cells
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd()
  )
}

/** Everything about a letter; its body only where it is asked for. */
export const full = (letter: DeadLetter, withBody: boolean) => ({
  ...summary(letter),
  key: letter.key,
  headers: letter.headers,
  history: letter.history.map((entry) => ({ ...entry, at: new Date(entry.at).toISOString() })),
  ...(withBody ? bodyOf(letter.body) : {})
})

/** Text where it is text, base64 where it is not. */
const bodyOf = (body: Uint8Array): { readonly body: string; readonly encoding: "utf-8" | "base64" } => {
  try {
    return { body: new TextDecoder("utf-8", { fatal: true }).decode(body), encoding: "utf-8" }
  } catch {
    return { body: Buffer.from(body).toString("base64"), encoding: "base64" }
  }
}

export const lines = (letter: DeadLetter, withBody: boolean): ReadonlyArray<string> => {
  const { body, encoding } = bodyOf(letter.body)
  return [
    `Dead letter ${letter.number}, ${letter.state}`,
    `  event    ${plain(letter.id)}`,
    `  subject  ${plain(letter.subject)}`,
    `  source   ${plain(letter.source)}`,
    `  reason   ${letter.reason}: ${plain(letter.detail)}`,
    `  headers  ${Object.keys(letter.headers).map(plain).join(", ") || "none"}`,
    `  body     ${letter.body.byteLength} bytes${withBody ? ` (${encoding})` : ", shown with --body"}`,
    ...letter.history.map(
      (entry) =>
        `  ${new Date(entry.at).toISOString()}  ${entry.what === "died" ? `died (${entry.reason}): ${plain(entry.detail)}` : `replayed by ${plain(entry.by)} as ${plain(entry.brokerId)}`}`
    ),
    ...(withBody ? ["", body] : [])
  ]
}

/** One line without control characters: a terminal must not obey an event. */
const plain = (text: string): string => text.replace(/\p{Cc}/gu, " ")
