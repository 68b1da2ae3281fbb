"""gamagat compare, as people and machines use it."""

import json

WORDS = ["compare", "digits-cnn", "--n", "8", "--device", "cpu"]


def test_queries_are_paid_for_as_gradients_are(command):
    attacks = ["--attack", "pgd", "--attack", "square", "--attack", "spsa:samples=2"]
    code, out, _ = command(*WORDS, "--budget", "10", *attacks, "--json")
    result = json.loads(out)
    assert code == 0
    assert "queries" in result["counted"]
    spent = {item["name"]: (item["forwards"], item["backwards"]) for item in result["attacks"]}
    assert spent["pgd:steps=10"][1] == 10
    assert 20 <= spent["square:queries=20"][0] < 30  # and the questions to the judge
    assert spent["spsa:samples=2,steps=4"] == (20, 0)
    code, out, _ = command(*WORDS, "--budget", "10", *attacks)
    assert "has two passes forward (queries)" in " ".join(out.split())


def test_a_budget_below_a_single_step_is_one_sentence(command):
    code, out, err = command(*WORDS, "--budget", "100", "--attack", "spsa")
    assert (code, out) == (2, "")
    assert "spsa needs at least 257 forward passes per image" in err
    assert "give --budget 129 or more" in err
    assert err.count("\n") == 1
