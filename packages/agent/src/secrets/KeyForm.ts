/**
 * Detects keys by their form: the prefixes of vendors, and words that look random.
 *
 * `Redaction` masks such words in a sentence. {@link mayBeKey}, {@link isKey} and {@link holdsKey} reject a key
 * where a name belongs. The names of many variables use the same alphabet as many real keys (`gsk_…`, `hf_…`, 32
 * hexadecimal digits), so the alphabet alone decides nothing.
 *
 * All forms match in linear time: the part after an unbounded run is optional.
 */

/** Keys with the prefix of a vendor. Lower-case names may begin in the same way: `hf_token`. */
const prefixed = [
  "(?:sk|pk|rk|csk|gsk|pcsk|xai|nvapi|glpat|github_pat|gh[oprsu]|xox[a-z]|xapp|whsec|tvly|lsv2|vck)[-_][A-Za-z0-9*_-]{6,}",
  // These prefixes also begin words of libraries and models.
  "(?:hf|r8|fw|pplx|tgp_v1)[-_][A-Za-z0-9*]{8,}"
].join("|")

/** Keys and tokens that are certain by their form: JWTs, cloud credentials, long hexadecimal strings. */
const certain = [
  String.raw`ya29\.[\w.-]{6,}`,
  String.raw`1//0[\w-]{10,}`,
  "npm_[A-Za-z0-9]{30,}",
  String.raw`AQ\.[\w-]{20,}`,
  "(?:AKIA|ASIA)[A-Z0-9*]{12,}",
  "ABSK[A-Za-z0-9+/]{20,}={0,2}",
  String.raw`AIza[\w-]{10,}`,
  String.raw`eyJ[\w-]{10,}(?:\.[\w-]*){0,4}`,
  // Base64 has capitals or digits after its first letter; "Basic Authentication" has none.
  "[Bb](?:asic|ASIC) {1,4}(?=.[a-z]{0,64}[A-Z0-9+/=])[A-Za-z0-9+/]{8,}={0,2}",
  String.raw`bce-v3/[A-Za-z0-9*-]{6,}(?:/[A-Za-z0-9*]{6,})?`,
  "ALTAK-[A-Za-z0-9*]{8,}",
  String.raw`GOCSPX-[\w-]{8,}`,
  // Zhipu's keys have a second half after a dot.
  String.raw`[0-9a-fA-F]{32,}(?:\.[A-Za-z0-9]{6,})?(?![A-Za-z0-9])`
].join("|")

/** "key-1A2B…" of older vendors. Too similar to names and prose to reject a name by itself. */
const keyWord = "key[-_](?=[a-z_-]{0,64}[A-Z0-9*])[A-Za-z0-9*_-]{6,}"

const alone = (pattern: string, flags = ""): RegExp => new RegExp(`(?<![A-Za-z0-9])(?:${pattern})`, flags)

/** All of these forms, anywhere in a sentence. For `replace` only: the expression is stateful (`g`). */
export const inText = alone(`${prefixed}|${keyWord}|${certain}`, "g")

/** True for a word with digits among letters of both cases, a UUID, or letters and digits in turn. */
export const isRandom = (word: string): boolean => {
  const head = word.slice(0, 200)
  if (/^[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}/i.test(head)) return true
  if (turns(head) >= 3) return true
  const run = /[a-z0-9]{20,}/i.exec(head)?.[0] ?? ""
  return /[a-z]/.test(run) && /[A-Z]/.test(run) && (/[0-9]/.test(run) || /[A-Z]{2}[a-z]{1,2}[A-Z]/.test(run))
}

/** Number of changes between a letter and a digit. */
const turns = (word: string): number => word.match(/[a-z](?=[0-9])|[0-9](?=[a-z])/gi)?.length ?? 0

// -----------------------------------------------------------------------------
// A key where a name belongs
// -----------------------------------------------------------------------------

/** Longest name of a key, in characters. */
export const maxName = 64

/** True when the name of a key or of a variable may be a key itself. Such a name is rejected, and never shown. */
export const mayBeKey = (name: string): boolean =>
  name.length > maxName ||
  hasCertain.test(name) ||
  Array.from(name.matchAll(eachPrefixed), ([found]) => found).some(isNoName) ||
  name.split(/[^A-Za-z0-9]+/).some(isRandomPart)

const hasCertain = alone(certain)
const eachPrefixed = alone(prefixed, "g")

/**
 * Words that occur in names: `hf_api_token` and `sk_live_key_2` are names, although a vendor's keys begin like
 * them.
 */
const nameWord =
  /^(?:api|access|auth|inference|secret|private|org|project|team|user|keys?|tokens?|prod|production|dev|development|stage|staging|test|live|main|primary|secondary|fallback|backup|default|eu|us|ap|v?\d{1,2}|[a-z])$/

/** True when the text after a vendor's prefix is not a name: a dash never occurs in a variable, an underscore may. */
const isNoName = (found: string): boolean => {
  const [, mark = "", rest = ""] = /^[a-z]+\d?(?:_v1)?([-_])(.*)$/.exec(found) ?? []
  return rest
    .split(/[-_]/)
    .some((part) => !nameWord.test(part) && (mark === "-" || part.length >= 12 || /[A-Z0-9*]/.test(part)))
}

/** True for a part of a name that looks random. `OAUTH2` and `prodKey2024` do not. */
const isRandomPart = (part: string): boolean =>
  part.length >= 44 ||
  (part.length >= 8 && turns(part) >= 3) ||
  (part.length >= 20 && /[a-z]/.test(part) && /[A-Z]/.test(part) && /[0-9][A-Za-z]/.test(part)) ||
  (part.length >= 24 && /[0-9]/.test(part)) ||
  /[0-9]{9}/.test(part)

/**
 * True for a text that is as a whole the key of a vendor. For names of models and providers, which may contain
 * dates, versions and hashes.
 */
export const isKey = (text: string): boolean => wholeKey.test(text)

const wholeKey = new RegExp(
  `^(?:${[
    "(?:sk|rk|csk|pcsk|nvapi|glpat|github_pat|xox[a-z]|xapp)[-_][A-Za-z0-9_-]{8,}",
    "(?:gsk|gh[oprsu]|npm|hf|r8|fw|tgp_v1)_[A-Za-z0-9_-]{8,}",
    "(?:xai|pplx)-[A-Za-z0-9]{20,}",
    String.raw`ya29\.[\w.-]{6,}`,
    String.raw`AQ\.[\w-]{20,}`,
    "(?:AKIA|ASIA)[A-Z0-9]{12,}",
    "ABSK[A-Za-z0-9+/=]{20,}",
    String.raw`AIza[\w-]{10,}`,
    String.raw`eyJ[\w-]{10,}(?:\.[\w-]*){0,4}`,
    "[0-9a-f]{32}",
    "(?=[A-Za-z]*[0-9])[A-Za-z0-9]{32,}"
  ].join("|")})$`
)

/**
 * True for a text that contains the key of a vendor: `Bearer sk-ant-…`, `gpt:sk-…`, `bot<key>`. Random ids do not
 * count: names of fine-tuned models and accounts in URLs contain them.
 */
export const holdsKey = (text: string): boolean => innerKey.test(text)

/** Longer than in {@link wholeKey}, and with a random word: `sk-learn-classifier-v2` is a name. */
const byChance =
  "(?=[A-Za-z0-9_-]{16})(?=[A-Za-z0-9_-]{0,64}?(?:[A-Za-z0-9]{16}|(?=[A-Za-z]{0,8}[0-9])[A-Za-z0-9]{8}))"

const innerKey = new RegExp(
  [
    `(?<![A-Za-z0-9])(?:sk|rk|csk|pcsk|gsk|hf|r8|fw|tgp_v1|xai|pplx|glpat|xox[a-z]|xapp)[-_]${byChance}`,
    // Other letters may precede these keys, as in `bot<key>`.
    `(?:sk-(?:ant|proj|svcacct|admin|or)|gsk|npm|nvapi|gh[oprsu]|github_pat|xai|pplx|hf)[-_]${byChance}`,
    String.raw`eyJ[\w-]{16}`,
    String.raw`AIza[\w-]{16}`,
    String.raw`(?<![A-Za-z0-9])(?:ya29\.[\w.-]{10}|AQ\.[\w-]{20})`,
    "(?:AKIA|ASIA)[A-Z0-9]{12}",
    "ABSK[A-Za-z0-9+/=]{20}",
    "[Bb]earer[ :=] {0,4}[A-Za-z0-9_.-]{8}"
  ].join("|")
)
