"""What does the page say? Each of its words in English and in Japanese, side by side."""

import re

LANGUAGES = {"en": "English", "ja": "日本語"}

_WORDS: dict[str, tuple[str, str]] = {
    "skip": ("Skip to the content", "本文へ移動"),
    "search": ("Search", "検索"),
    "index": ("Index", "索引"),
    "evaluate": ("Evaluate", "評価"),
    "language": ("Language", "言語"),
    "theme": ("Light or dark", "明るさの切り替え"),
    "views": ("Views", "表示の切り替え"),
    # Search
    "ask": ("Ask in English or Japanese", "日本語か英語で質問してください"),
    "ask_hint": (
        "Type a question or a few words. / puts you here, ↑ ↓ go through the results, Enter opens one, Esc clears.",
        "質問や言葉を入力してください。「/」でここへ、↑ ↓ で結果を選び、Enter で開き、Esc で消します。",
    ),
    "filters": ("Filters", "絞り込み"),
    "collection": ("Collection", "コレクション"),
    "all_collections": ("All", "すべて"),
    "path": ("Path", "パス"),
    "path_hint": ("guide/ or *.md", "guide/ や *.md"),
    "where": ("Front matter", "フロントマター"),
    "where_hint": ("status=draft, date>=2025", "status=draft, date>=2025"),
    "since": ("Updated", "更新"),
    "any_time": ("At any time", "いつでも"),
    "since_1d": ("In the last day", "1 日以内"),
    "since_1w": ("In the last week", "1 週間以内"),
    "since_1m": ("In the last month", "1 か月以内"),
    "since_1y": ("In the last year", "1 年以内"),
    "unmet": ("No document has {condition}.", "{condition} に当てはまる文書はありません。"),
    "depth": ("Depth", "深さ"),
    "any_depth": ("Any", "すべて"),
    "depth_0": ("Whole documents", "文書全体"),
    "depth_1": ("Chapters (#)", "章 (#)"),
    "depth_2": ("Sections (##)", "節 (##)"),
    "depth_3": ("Subsections (###)", "項 (###)"),
    "mode": ("By", "探し方"),
    "mode_hybrid": ("Meaning and words", "意味と言葉"),
    "mode_vector": ("Meaning", "意味"),
    "mode_keyword": ("Words", "言葉"),
    "mode_exact": ("Exact text or /pattern/", "文字どおり・/正規表現/"),
    "results": ("Results", "検索結果"),
    "results_of": ("{count} of {total} results, {ms} ms", "{total} 件中 {count} 件 ({ms} ミリ秒)"),
    "results_all": ("{count} results, {ms} ms", "{count} 件 ({ms} ミリ秒)"),
    "result_one": ("{count} result, {ms} ms", "{count} 件 ({ms} ミリ秒)"),
    "no_good_match": ("No good match; nearest:", "よく合うものはありません。近いもの:"),
    "nothing": ("Nothing found. Try other words.", "見つかりませんでした。別の言葉で試してください。"),
    "corrected": (
        "No document holds “{typed}”; searched for “{meant}”.",
        "「{typed}」を含む文書がないので「{meant}」で探しました。",
    ),
    "score": (
        "Of results with this score, about {percent} % are right",
        "この値の結果のうち、約 {percent} % が正しい答えです",
    ),
    "verdict_answers": ("answers", "答えです"),
    "verdict_may_answer": ("may answer", "答えかもしれません"),
    "verdict_no_good_match": ("no good match", "よく合いません"),
    "why": ("Why it is here", "この順位の理由"),
    "status_latest": ("up to date", "最新"),
    "status_updating": ("being updated", "更新中"),
    "status_outdated": ("out of date", "古い"),
    # Reader
    "outline": ("Outline", "目次"),
    "back": ("Back to the results", "検索結果へ戻る"),
    "copy": ("Copy {place}", "{place} をコピー"),
    "copied": ("Copied", "コピーしました"),
    "edit": ("Open in the editor", "エディターで開く"),
    "edit_done": ("The editor is opening it.", "エディターで開いています。"),
    "parent": ("Up: {heading}", "上の節: {heading}"),
    "children": ("Inside:", "この中の節:"),
    "remote_image": ("image at {host}", "{host} の画像"),
    "document": ("Document", "文書"),
    "excerpt": (
        "This document is too long to be shown whole: here is the text around the line.",
        "長い文書なので、該当行の前後だけを表示しています。",
    ),
    # Index
    "collections": ("Collections", "コレクション"),
    "name": ("Name", "名前"),
    "folder": ("Folder", "フォルダー"),
    "description": ("Description", "説明"),
    "documents": ("Documents", "文書"),
    "sections": ("Sections", "節"),
    "searched": ("Searched", "検索対象"),
    "enable": ("Search in {name}", "{name} を検索対象にする"),
    "add": ("Add a collection", "コレクションを追加"),
    "add_do": ("Add", "追加"),
    "reindex": ("Index again", "索引を作り直す"),
    "reindexing": ("Indexing: {done} of {total} files", "索引作成中: {total} 件中 {done} 件"),
    "up_to_date": ("Up to date", "最新の状態です"),
    "queue": ("Queue", "待ち行列"),
    "queue_empty": ("Nothing waits.", "待っているものはありません。"),
    "left_out": ("Left out, and why", "索引に入っていないものと理由"),
    "left_out_none": ("Nothing was left out.", "ありません。"),
    "and_more": ("and {count} more", "ほか {count} 件"),
    "reason": ("Reason", "理由"),
    "state": ("State", "状態"),
    "state_pending": ("waiting", "待機中"),
    "state_processing": ("being indexed", "処理中"),
    "state_completed": ("done", "完了"),
    "state_failed": ("failed", "失敗"),
    "state_skipped": ("left out", "対象外"),
    "map": ("Map", "地図"),
    "map_hint": (
        "Files by size: the area is bytes, the colour is how fresh they are.",
        "面積はファイルの大きさ、色は新しさを表します。",
    ),
    "condition_latest": ("up to date", "最新"),
    "condition_waiting": ("waiting", "待機中"),
    "condition_failed": ("failed", "失敗"),
    "condition_skipped": ("left out", "対象外"),
    "files": ("{count} files", "{count} ファイル"),
    "about": ("About", "情報"),
    "disk": ("Disk", "ディスク"),
    "memory": ("Memory", "メモリー"),
    "version": ("Version", "バージョン"),
    "embedder": ("Embedder", "埋め込みモデル"),
    "root": ("Project", "プロジェクト"),
    "database": ("Index file", "索引ファイル"),
    "address": ("Address", "アドレス"),
    # Evaluate
    "evaluate_hint": (
        "One question a line, a tab (or →), and the path of the document that answers it.",
        "1 行に質問、タブ (または →)、答えのある文書のパスを書いてください。",
    ),
    "questions": ("Questions", "質問"),
    "setting": ("Setting {name}", "設定 {name}"),
    "run": ("Run", "測る"),
    "save": ("Save as a file", "ファイルに保存"),
    "load": ("Load a file", "ファイルを読み込む"),
    "question": ("Question", "質問"),
    "right_path": ("Right document", "正しい文書"),
    "rank": ("Rank with {name}", "{name} の順位"),
    "not_found": ("not in the first {count}", "{count} 位以内になし"),
    "found_share": (
        "{found} of {total} in the first five, mean reciprocal rank {mrr}",
        "5 位以内 {found} / {total}、平均逆順位 {mrr}",
    ),
    "bad_line": ("Line {line} has no tab and path.", "{line} 行目にタブとパスがありません。"),
    # Trouble
    "token": (
        "This server needs its token, or the code that `annai open` shows.",
        "このサーバーのトークン、または `annai open` が表示するコードが必要です。",
    ),
    "token_name": ("Token or code", "トークンまたはコード"),
    "enter": ("Enter", "入る"),
    "offline": ("The server does not answer; trying again.", "サーバーが応答しません。再接続しています。"),
    "problem": ("That did not work: {message}", "できませんでした: {message}"),
}

_PREFERENCE = re.compile(r"\s*([a-z]{2,3})(?:-[\w-]+)?\s*(?:;\s*q=([\d.]+))?", re.IGNORECASE)


def words(language: str) -> dict[str, str]:
    """Every word of the page in a language."""
    place = [*LANGUAGES].index(language)
    return {name: texts[place] for name, texts in _WORDS.items()}


def preferred_language(accepted: str) -> str:
    """The best language of an Accept-Language header that the page has."""
    found = []
    for match in map(_PREFERENCE.match, accepted[:1000].split(",")):
        if match and match[1].lower() in LANGUAGES:
            try:
                found.append((float(match[2] or 1), match[1].lower()))
            except ValueError:
                continue
    return max(found, key=lambda each: each[0], default=(0, "en"))[1]
