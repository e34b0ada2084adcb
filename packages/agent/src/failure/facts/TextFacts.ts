/**
 * Joins all sentences of an error to one text, and finds a status that the text states.
 */
import { cut } from "./BodyFacts.ts"

/** The error's own texts and those of its body as one lower-cased line. */
export const join = (own: ReadonlyArray<string>, body: ReadonlyArray<string>): string => {
  // An error that is quoted in a sentence is a text of its own, too.
  const outer = own.filter((text, i) => !own.slice(0, i).some((known) => known.includes(text))).join(" \n ")
  const parts = [outer, ...namesIn(outer)]
  for (const part of body) if (!parts.some((known) => known.includes(part))) parts.push(plainOf(part))
  return plainSpaces(cut(parts.join(" ")).toLowerCase().replaceAll("’", "'").replaceAll("‘", "'"))
}

/** The words of a message that is a single name: "InvalidProviderAPIKey". */
const namesIn = (text: string): ReadonlyArray<string> =>
  /^[A-Z][A-Za-z_]{5,80}$/.test(text)
    ? [text.replace(/_|([a-z])(?=[A-Z])|([A-Z])(?=[A-Z][a-z])/g, "$1$2 ")]
    : []

/** Replaces runs of white space by one blank. Most messages need no change. */
const plainSpaces = (text: string): string =>
  /[^\S ]| {2}/.test(text) ? text.replace(/\s+/g, " ").trim() : text.trim()

/** Removes the tags of an HTML page. */
const plainOf = (text: string): string => (/^\s*</.test(text) ? text.replace(/<[^<>]{0,2000}>/g, " ") : text)

// A number is a status only at the very beginning of a text, after "HTTP", "status", "error code" or the name of an
// error, and if it does not count anything.

/** Before one of these words a number is a subject or an amount. */
const verbs = "is|are|was|were|of|in|out|times|more|or|and|to|percent"
/**
 * Words that end like a plural but often begin the sentence after a status: "429 Requests …", "400 This model's …".
 */
const noPlurals =
  "this|its|has|does|always|requires|exceeds|needs|expects|contains|fails|requests?|[a-z]{0,20}(?:ss|us|is)"
/** Rejects numbers that count: "404 is not a function", "429 items in cart", "500 tokens were requested". */
const counts = String.raw`(?! (?:(?:${verbs})(?![\w.[:])|(?!(?:${noPlurals})(?!\w))[a-z]{2,20}s(?=[ ,;]|\.(?: |$)|$)))`
const aStatus = String.raw`([45]\d\d)${counts}`

const leading = new RegExp(
  String.raw`^[^a-z0-9]{0,4}(?:(?:api )?error[ :]{1,2})?\(?${aStatus}(?:[ :,)"'{-]|\.(?!\d)|$)`
)

/** Words before "code" or "status" that give it another meaning: an exit code, a zip code, source code. */
const otherwise = String.raw`(?<!\b(?:exit(?:ed)?(?: with)?|return|zip|area|source|the|this|your|my|of|some)[ _])`
const stated = new RegExp(
  `(?:${[
    String.raw`\bhttp(?:\/[\d.]+)?`,
    String.raw`${otherwise}\bstatus(?:[ _]?code)?(?: is| was| of)?`,
    String.raw`\b(?:http[ _]|error )code`,
    String.raw`${otherwise}\bcode`,
    String.raw`\bapi error`,
    String.raw`\w(?:error|exception|unavailable|exhausted)`,
    String.raw`\bexceptions\.\w{1,40}`,
    String.raw`\b(?:error|stream_response):`
  ].join("|")})[ :=("']{1,4}(?:http )?${aStatus}` + String.raw`(?!\w|\.\d)`
)

/** A status that a sentence reports: "got 503 from upstream", "failed with 429", "token refresh failed: 401". */
const reported = new RegExp(
  String.raw`\b(?:got|returned|returns|received|replied|responded|failed)(?: with)?(?: an?)?[: ]{1,2}${aStatus}` +
    String.raw`(?!\w|\.\d| ?(?:[mkg]?b|m?s|bytes|characters|%))`
)
const closing = new RegExp(
  String.raw`(?:failed|failure|error|invalid|expired|denied|rejected|response|refused|unavailable)[:,]? [(\[]?([45]\d\d)[)\]]?\.?$`
)

/** A status beside its HTTP name, or in square brackets. */
const named = new RegExp(
  String.raw`(?<![\w.])(?:(400)(?= bad request)|(401)(?= unauthorized)|(402)(?= payment)|(403)(?= forbidden)|(404)(?= not found)` +
    String.raw`|(413)(?= (?:payload|request entity|content) too)|(421)(?= misdirected)|(422)(?= unprocessable)|(429)(?= too many)|(500)(?= internal)` +
    String.raw`|(502)(?= bad gateway)|(503)(?= service)|(504)(?= gateway)|\[([45]\d\d)\])`
)

/** A number that only a status has, near a word of HTTP. Positions and limits do not count. */
const known = "4(?:0[0-9]|1[03567]|2[2-9]|51|99)|5(?:0[0-9]|2[0-9]|30)"
const near = new RegExp(
  String.raw`${otherwise}\b(?:http|status|response|code|client error|server error)\b[^\d\n]{0,24}?(?<!\b(?:line|column|port|position|index|limit|max|exit|than|code|of|to|at)[ :=]{1,2})(?<![\w.])(${known})${counts}(?![\w%]|\.\d)` +
    String.raw`|(?<![\w.])(${known})(?= (?:[a-z]+ )?(?:status code|client error|server error|http|error\b))`
)

const number = /[45]\d\d/

/** The status that a lower-cased text states. */
export const status = (text: string): number | undefined => {
  // Most texts have no such number.
  if (!number.test(text)) return undefined
  const head = text.slice(0, 1_000)
  const found =
    leading.exec(text) ??
    stated.exec(head) ??
    named.exec(head) ??
    reported.exec(head) ??
    closing.exec(head) ??
    near.exec(head)
  const status = found?.slice(1).find((group) => group !== undefined)
  return status === undefined ? undefined : Number(status)
}
