#!/usr/bin/env python3
"""The pages of `tandem cut` and of the doctor in a real browser: listens, keeps and drops with keys, saves choices, which
the program applies.

    cut_page.py PROGRAM CUT_FOLDER [--findings PAGE] [--screenshots FOLDER]

CUT_FOLDER is one that cut has made; it is copied. Needs what page.py needs, and ends with 77 where that is missing.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from page import DRIVER, Page
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.support.ui import Select

PLAYS = "return [player.currentSrc, player.duration, player.error && player.error.code, player.paused]"


class CutPage(Page):
    def __init__(self, path, folder):
        super().__init__(0, folder)
        self.url = pathlib.Path(path).resolve().as_uri()
        self.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(folder)})

    def said(self):
        return self.driver.execute_script("return document.body.innerText.slice(0, 200)")

    def press(self, key):
        ActionChains(self.driver).send_keys(key).perform()

    def rows(self, what):
        return self.driver.execute_script(f"return [...document.querySelectorAll('{what}')].map((e) => e.innerText)")

    def shoot(self, folder, name):
        if folder:
            self.driver.execute_async_script("setTimeout(arguments[0], 500)")
            self.driver.save_screenshot(os.path.join(folder, name + ".png"))


def choose(page, folder, screenshots):
    page.open()
    all_rows = page.rows(".row")
    assert len(all_rows) > 3, all_rows
    page.press(" ")
    page.until("the first row sounds", lambda: page.driver.execute_script(PLAYS)[1])
    source, seconds, error, _ = page.driver.execute_script(PLAYS)
    assert source.endswith("/wavs/00001.wav") and seconds > 1 and error is None, (source, seconds, error)
    page.shoot(screenshots, "cut")
    page.press("d")
    page.press("k")
    assert [text.split(" ·")[0].split("\n")[-1] for text in page.rows(".row.now")] == ["00003"], page.rows(".row.now")
    Select(page.find("#which")).select_by_visible_text("doubtful first")
    scores = page.driver.execute_script("return order.map((i) => data.rows[i].score)")
    assert scores == sorted(scores), scores[:10]
    page.press("d")  # the list has the focus no more: keys choose, and do not turn it
    worst = page.driver.execute_script("return data.rows[order[0]].id")
    page.shoot(screenshots, "cut-doubtful")
    page.set_dark(True)
    page.check_width(400)
    page.shoot(screenshots, "cut-400-dark")
    page.click("#save")
    choices = os.path.join(folder, "choices.txt")
    page.until("choices are saved", lambda: os.path.exists(choices))
    time.sleep(0.2)
    wanted = {"00001": "drop", "00002": "keep", worst: "drop"}
    saved = dict(line.split() for line in open(choices, encoding="utf-8"))
    assert saved == wanted, (saved, wanted)
    page.driver.refresh()
    page.set_dark(False)
    page.until("choices are still there", lambda: page.rows(".row.dropped"))
    return choices, wanted


def look_at_findings(page, screenshots):
    page.open()
    assert page.count("audio") > 0 and page.count("img, canvas") > 0
    page.driver.execute_script("document.querySelector('audio').play()")  # it is not loaded before
    page.check_sound("audio")
    page.shoot(screenshots, "findings")
    page.set_dark(True)
    page.check_width(400)
    page.shoot(screenshots, "findings-400-dark")


def run(arguments, folder):
    copy = os.path.join(folder, "cut")
    shutil.copytree(arguments.folder, copy)
    page = CutPage(os.path.join(copy, "cut.html"), folder)
    try:
        choices, wanted = choose(page, folder, arguments.screenshots)
        if arguments.findings:
            page.url = pathlib.Path(arguments.findings).resolve().as_uri()
            look_at_findings(page, arguments.screenshots)
        severe = [entry["message"] for entry in page.driver.get_log("browser") if entry["level"] == "SEVERE"]
        assert not severe, severe
    finally:
        page.driver.quit()
    subprocess.run([arguments.program, "cut", "--apply", choices, "-o", copy], check=True)
    with open(os.path.join(copy, "metadata.csv"), encoding="utf-8") as table:
        kept = {line.split("|")[0] for line in table}
    for row, what in wanted.items():
        assert (row in kept) == (what == "keep"), (row, what)
    print("the page plays, keeps, drops, sorts and saves, and its choices are applied")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("folder")
    parser.add_argument("--findings")
    parser.add_argument("--screenshots")
    arguments = parser.parse_args()
    if not os.path.exists(DRIVER):
        print(f"skipped: there is no {DRIVER}; install chromium-driver")
        return 77
    if arguments.screenshots:
        os.makedirs(arguments.screenshots, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tandem-cut-page-") as folder:
        run(arguments, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
